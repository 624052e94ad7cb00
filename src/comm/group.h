// Communicators over the engine, and the transport that creates them.
#pragma once

#include "comm/engine.h"
#include "comm/transport.h"

namespace trireme {

// Creates a transport over any wire and takes ownership of the wire.
std::unique_ptr<Transport> make_wire_transport(std::unique_ptr<Wire> wire,
                                               const ProgressOptions& options);

// See Transport::outside_group; `rank` is this rank's position among the ranks.
std::unique_ptr<OutsideGroup> make_outside_group(ProgressEngine& engine, std::vector<int> ranks,
                                                 int rank, const std::string& name);

}  // namespace trireme
