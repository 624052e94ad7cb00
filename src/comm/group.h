// Communicators over the engine, and the transport that makes them.
#pragma once

#include "comm/engine.h"
#include "comm/transport.h"

namespace trireme {

// A transport over any wire; owns it.
std::unique_ptr<Transport> make_wire_transport(std::unique_ptr<Wire> wire,
                                               const ProgressOptions& options);

}  // namespace trireme
