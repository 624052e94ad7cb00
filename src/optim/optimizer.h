// The optimiser: master weights and moments of what this rank owns of a stage, and the step over
// them.
#pragma once

#include <cstdint>

#include "base/exact_sum.h"
#include "config/config.h"
#include "parallel/gradients.h"
#include "parallel/parameters.h"

namespace trireme {

class Optimizer {
 public:
  // Plans, without allocating. All but the configuration must outlive the optimiser.
  Optimizer(const Stage& stage, const StateLayout& layout, Parameters& parameters,
            const Gradients& gradients, const OptimizerConfig& config);

  // Master weights (where the compute type is not the accumulation type) and moments.
  const MemoryPlan& memory() const { return memory_; }
  void allocate();

  // Adds the squares of the gradients that this rank owns to a sum in device memory, in blocks of
  // parameters whose cuts do not depend on the layout. `counts(parameter)` tells whether this rank
  // counts it: one of several copies does.
  void add_squares(ExactSum* sum, const std::function<bool(const ParameterSpec&)>& counts) const;

  // What the next step's kernels read of it: updates and bias corrections.
  void describe_next_step(StepBlock& block) const;
  // One step: updates master weights, moments and compute copies, here and on the ranks that share
  // them. `block` lies in device memory, with what describe_next_step() said, the learning rate,
  // what multiplies every gradient (clipping and the inverse loss scale), and the seed that chooses
  // how moments in bf16 are rounded, the same on every layout with equal tensor parallelism.
  void step(const StepBlock* block);

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
  // Type of masters, and of moments: the same, or bf16.
  DType dtype() const { return stage_.definition().accumulate(); }
  DType moment_dtype() const { return moment_dtype_; }
  const StateLayout& layout() const { return layout_; }
  // Where the states of an owned slice begin.
  std::byte* master(const OwnedSlice& slice) const;
  std::byte* moment(const OwnedSlice& slice, int which) const;

 private:
  std::int64_t state_element(const OwnedSlice& slice) const;
  const std::byte* gradient(const OwnedSlice& slice) const;
  const ParameterSpec& spec(const OwnedSlice& slice) const {
    return stage_.definition().parameters[slice.parameter].spec;
  }
  template <class T>
  void update(const OwnedSlice& slice, const StepBlock* block);
  template <class T>
  void update_block(const OwnedSlice& slice, const StepBlock* block);
  // Runs body(slice) over all slices and sends each bucket on its way when it is done.
  template <class Body>
  void for_each_slice(const Body& body);

  const Stage& stage_;
  const StateLayout& layout_;
  Parameters& parameters_;
  const Gradients& gradients_;
  OptimizerConfig config_;
  bool sgd_;
  bool own_masters_;
  DType moment_dtype_;
  MemoryPlan memory_;
  MemoryBlock masters_, first_moments_, second_moments_;
  MemoryBlock widened_;  // a block of each state that is stored as bf16
  std::int64_t steps_ = 0;
};

}  // namespace trireme
