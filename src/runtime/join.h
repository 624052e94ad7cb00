// Joins the job that a launcher started, with the device that a configuration names: in the order
// that machines need.
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
  // TransportOptions. What goes wrong with the GPU is kept for choose_device().
  JoinedJob(DeviceKind device, double timeout_s);

  Transport& transport() const { return *transport_; }
  DeviceKind device() const { return device_; }
  // Gives this rank its device. To be called within run_guarded(): of several ranks one then says
  // what went wrong.
  void choose_device() const;

 private:
  DeviceKind device_;
  std::vector<int> near_nodes_;
  std::exception_ptr failure_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace trireme
