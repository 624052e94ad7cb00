// The optimizer: master weights and moments of what this rank owns of a stage, and the step over
// them.
#pragma once

#include <cstdint>
#include <memory>

#include "base/exact_sum.h"
#include "config/config.h"
#include "optim/rules.h"
#include "optim/states.h"
#include "optim/whole_matrices.h"
#include "parallel/gradients.h"
#include "parallel/parameters.h"

namespace trireme {

class Optimizer {
 public:
  // Plans, without allocating. All but the configuration must outlive the optimizer.
  Optimizer(const Stage& stage, const StateLayout& layout, Parameters& parameters,
            const Gradients& gradients, const OptimizerConfig& config,
            const OffloadOptions& offload = {});

  // Master weights (if the compute type is not the accumulation type), moments, and buffers of
  // unsharded 2-D parameters.
  const MemoryPlan& memory() const { return memory_; }
  // The groups outlive this.
  void allocate(const Groups& groups);

  // Adds the squares of the gradients that this rank owns to a sum in device memory, in blocks of
  // parameters whose cuts do not depend on the layout. `counts(parameter)` tells whether this rank
  // counts it: one of several copies does.
  void add_squares(ExactSum* sum, const std::function<bool(const ParameterSpec&)>& counts) const;

  // Scalars for the next step's kernels: updates and bias corrections.
  void describe_next_step(StepBlock& block) const;
  // The passes of a step begin, whose gradients this will use: reads ahead what it needs first of
  // states elsewhere. They do not depend on the gradients, and the step need not come.
  void expect_step();
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

  // Moments that are kept of a parameter: 1 or 2.
  int moments(int parameter) const { return entry_for(parameter).moments; }
  // Type of masters, and of moments: the same, or bf16.
  DType dtype() const { return stage_.definition().accumulate(); }
  DType moment_dtype() const { return moment_dtype_; }
  const StateLayout& layout() const { return layout_; }
  // Calls use(slice, master) for all that this rank owns, in pieces.
  void for_each_master(const std::function<void(const OwnedSlice&, const std::byte*)>& use);
  // Records when states are updated and moved; null: nothing.
  void set_trace(Trace* trace);
  const States& states() const { return states_; }
  States& states() { return states_; }

  // Address of the states of an owned slice that are in memory.
  std::byte* master(const OwnedSlice& slice) const;
  std::byte* moment(const OwnedSlice& slice, int which) const;

 private:
  // Phase of the step for a range: the direction of unsharded 2-D parameters, or the update.
  enum class Phase : std::uint8_t { direct, update };

  const OptimizerEntry& entry_for(int parameter) const {
    return is_matrix(parameter) ? entry_ : rest_;
  }
  bool is_matrix(int parameter) const;
  StateKinds state_kinds() const;
  const std::byte* gradient(const OwnedSlice& slice) const;
  const ParameterSpec& spec(const OwnedSlice& slice) const {
    return stage_.definition().parameters[slice.parameter].spec;
  }
  // Calls body(piece) for the parts of a slice that are there at a time.
  template <class Body>
  void for_each_piece(const OwnedSlice& slice, const Body& body);
  // For each bucket the arrays of `mask` that it has, or those that a phase of the step needs.
  std::vector<unsigned> arrays(unsigned mask) const;
  std::vector<unsigned> arrays(Phase phase) const;
  void begin_phase(Phase phase);
  void begin_masters(bool reads, bool writes);
  void balance(const OwnedSlice& piece);
  void update(const OwnedSlice& slice, const StepBlock* block, Phase phase);
  void update_block(const OwnedSlice& slice, const StepBlock* block, Phase phase);
  void store_moments(const OwnedSlice& slice, const StepBlock* block, void* const* values);
  // Runs body(slice) over all slices and sends each bucket on its way when it is done.
  template <class Body>
  void for_each_slice(const Body& body);

  const Stage& stage_;
  const StateLayout& layout_;
  Parameters& parameters_;
  const Gradients& gradients_;
  OptimizerConfig config_;
  const OptimizerEntry& entry_;  // of the configuration
  const OptimizerEntry& rest_;   // of parameters that it does not take
  DType moment_dtype_;
  States states_;
  std::unique_ptr<WholeMatrices> matrices_;
  MemoryPlan memory_;
  Trace* trace_ = nullptr;
  MemoryBlock widened_;  // a block of each state that is stored as bf16
  MemoryBlock whole_;    // of matrices_
  std::int64_t steps_ = 0;
  bool expected_ = false;  // the first phase of the step has begun to read
};

}  // namespace trireme
