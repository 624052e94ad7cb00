// Finds the op after which the first number is not finite.
#pragma once

#include <string>

#include "backend/device.h"
#include "comm/communicator.h"
#include "optim/optimizer.h"

namespace trireme {

class NotFiniteSearch : public Observer {
 public:
  // `index`: room for one number in device memory. Both outlive this.
  NotFiniteSearch(Device& device, std::int64_t* index) : device_(device), index_(index) {}

  // Parameters come before any op.
  void look_at_masters(Optimizer& optimizer, const Stage& stage);
  void after(const Launch& launch) override;

  // The first finding along the model among those of all ranks, which call this together.
  std::string first_of_all(Communicator& world) const;

 private:
  std::int64_t first_bad(DType dtype, const void* data, std::int64_t count);

  Device& device_;
  std::int64_t* index_;
  std::string found_;
  // Findings are compared by this: parameters, then forward by layer, then backward from the end.
  std::int64_t order_ = 0;
};

}  // namespace trireme
