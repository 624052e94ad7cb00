// Search for the op that produced the first non-finite value.
#pragma once

#include <string>

#include "backend/device.h"
#include "comm/communicator.h"
#include "optim/optimizer.h"

namespace trireme {

class NotFiniteSearch : public Observer {
 public:
  // `index`: space for one number in device memory. Both arguments must outlive this object.
  NotFiniteSearch(Device& device, std::int64_t* index) : device_(device), index_(index) {}

  // Checks the parameters, which precede all ops.
  void look_at_masters(Optimizer& optimizer, const Stage& stage);
  void after(const Launch& launch) override;

  // Returns the first finding along the model over all ranks. Collective.
  std::string first_of_all(Communicator& world) const;

 private:
  std::int64_t first_bad(DType dtype, const void* data, std::int64_t count);

  Device& device_;
  std::int64_t* index_;
  std::string found_;
  // Sort key of findings: parameters, then forward by layer, then backward from the end.
  std::int64_t order_ = 0;
};

}  // namespace trireme
