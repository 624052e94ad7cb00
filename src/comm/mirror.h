// A transport without other ranks, to count what one of thousands sends: it receives its own
// messages from every peer.
#pragma once

#include <memory>

#include "comm/transport.h"

namespace trireme {

// `place` is the rank that is counted. Operations are those of a real transport and complete
// immediately. A rank that receives as much as it sends receives its own data; other memory that an
// operation would fill stays unchanged.
std::unique_ptr<Transport> make_mirror_transport(const Place& place);

}  // namespace trireme
