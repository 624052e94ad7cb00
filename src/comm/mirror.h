// A transport without other ranks, to count what one of thousands sends: whoever it hears from says
// what it says itself.
#pragma once

#include <memory>

#include "comm/transport.h"

namespace trireme {

// `place`: of the rank that is counted. Operations are those of a real transport and complete at
// once. Where a rank hears as much as it says, it hears just that; all other memory that an
// operation would fill stays as it was.
std::unique_ptr<Transport> make_mirror_transport(const Place& place);

}  // namespace trireme
