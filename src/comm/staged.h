// Collectives on device memory by way of the host: for devices whose memory the transport cannot
// reach and that have no library of collectives of their own.
#pragma once

#include <memory>

#include "backend/device.h"
#include "comm/communicator.h"

namespace trireme {

// The group of `inner`, for data in the memory of `device`. An operation waits until the compute
// queue has made its input, copies it to the host and starts there; when it is complete, waiting
// for it enqueues the copy of the result, which orders the compute queue behind it. Bits are those
// of `inner`. The device must outlive the communicator and its operations.
std::unique_ptr<Communicator> make_staged_communicator(Device& device,
                                                       std::unique_ptr<Communicator> inner);

}  // namespace trireme
