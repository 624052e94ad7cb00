// Communicators over the engine, and the transport that makes them.
#pragma once

#include "comm/engine.h"
#include "comm/transport.h"

namespace trireme {

// A transport over any wire; owns it.
std::unique_ptr<Transport> make_wire_transport(std::unique_ptr<Wire> wire,
                                               const ProgressOptions& options);

// As Transport::outside_group; `rank` is this one's position among the ranks.
std::unique_ptr<OutsideGroup> make_outside_group(ProgressEngine& engine, std::vector<int> ranks,
                                                 int rank, const std::string& name);

}  // namespace trireme
