// Starts the GPU's runtime and MPI, then selects the rank's device.
#include "runtime/join.h"

#include "base/error.h"
#include "runtime/devices.h"

namespace trireme {

JoinedJob::JoinedJob(DeviceKind device, double timeout_s) : device_(device) {
  try {
    near_nodes_ = start_device(device_);
  } catch (const Error&) {
    failure_ = std::current_exception();
  }
  transport_ = open_transport({.timeout_s = timeout_s, .near_nodes = near_nodes_});
}

void JoinedJob::choose_device() const {
  if (failure_) std::rethrow_exception(failure_);
  trireme::choose_device(device_, static_cast<int>(near_nodes_.size()), transport_->place());
}

}  // namespace trireme
