// The optimiser: master weights and moments of a stage's parameters, and the step over them.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "runtime/stage.h"

namespace trireme {

class Optimizer {
 public:
  // Plans, without allocating. The stage must outlive the optimiser.
  Optimizer(const Stage& stage, const OptimizerConfig& config);

  // Master weights (where the compute type is not the accumulation type) and moments.
  const MemoryPlan& memory() const { return memory_; }
  void allocate();

  // L2 norm of all gradients, not yet divided by the loss scale; not finite if any of them is not.
  double gradient_norm() const;

  // One step with the given learning rate; `gradient_scale` multiplies every gradient (clipping and
  // the inverse loss scale). Updates master weights, moments and the stage's compute copies.
  void step(double lr, double gradient_scale);

  // Fills masters and compute copies: the initial values of the parameters, a pure function of
  // (seed, name, element), whatever the layout.
  void initialize(std::int64_t seed);
  // Stores the masters into the compute copies: after they were loaded.
  void refresh_compute();

  // Number of steps taken; bias correction depends on it.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

  // Moments per parameter: 2 (Adam) or 1 (SGD).
  int moments() const { return sgd_ ? 1 : 2; }
  // Type of masters and moments.
  DType dtype() const { return stage_.definition().accumulate(); }
  void* master(int parameter) const;
  void* moment(int parameter, int which) const;

 private:
  template <class T>
  void step_as(double lr, double gradient_scale);

  const Stage& stage_;
  OptimizerConfig config_;
  bool sgd_;
  bool own_masters_;
  MemoryPlan memory_;
  MemoryBlock masters_, first_moments_, second_moments_;
  std::int64_t steps_ = 0;
};

}  // namespace trireme
