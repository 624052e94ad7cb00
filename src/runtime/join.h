// Joins the launcher's job with the configured device, in the order
// that the machines require.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "base/kinds.h"
#include "comm/transport.h"

namespace trireme {

class JoinedJob {
 public:
  // Starts the GPU's runtime, then MPI. `device` as in run.device, `timeout_s` as in
  // TransportOptions. GPU errors are kept for choose_device().
  JoinedJob(DeviceKind device, double timeout_s);

  Transport& transport() const { return *transport_; }
  DeviceKind device() const { return device_; }
  // Selects this rank's device. Call within run_guarded(), so that only one of several
  // ranks reports the error.
  void choose_device() const;

 private:
  DeviceKind device_;
  std::vector<int> near_nodes_;
  std::exception_ptr failure_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace trireme
