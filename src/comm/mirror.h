// A transport without other ranks, for counting what one of thousands of ranks sends: it receives
// its own messages from every peer.
#pragma once

#include <memory>

#include "comm/transport.h"

namespace trireme {

// `place` is the rank to count for. Operations are those of a real transport and
// complete immediately. A rank that receives as much as it sends gets its own data;
// other output memory stays unchanged.
std::unique_ptr<Transport> make_mirror_transport(const Place& place);

}  // namespace trireme
