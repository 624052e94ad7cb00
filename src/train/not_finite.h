// Finds the op after which the first number is not finite.
#pragma once

#include <string>

#include "comm/communicator.h"
#include "optim/optimizer.h"

namespace trireme {

class NotFiniteSearch : public Observer {
 public:
  // Parameters come before any op.
  void look_at_masters(const Optimizer& optimizer, const Stage& stage);
  void after(const Launch& launch) override;

  // What comes first along the model among the findings of all ranks, which call this together.
  std::string first_of_all(Communicator& world) const;

 private:
  std::string found_;
  // Findings are compared by this: parameters, then forward by layer, then backward from the end.
  std::int64_t order_ = 0;
};

}  // namespace trireme
