// Collectives on device memory through host memory, for devices whose memory the transport cannot
// access and that have no collective library.
#pragma once

#include <memory>

#include "backend/device.h"
#include "comm/communicator.h"

namespace trireme {

// The group of `inner` for data in the memory of `device`. An operation waits until the compute
// queue has produced its input, copies it to the host and starts there; waiting for the complete
// operation enqueues the copy of the result, ordered before later compute work. Bitwise equal to
// `inner`. The device must outlive the communicator and its operations.
std::unique_ptr<Communicator> make_staged_communicator(Device& device,
                                                       std::unique_ptr<Communicator> inner);

}  // namespace trireme
