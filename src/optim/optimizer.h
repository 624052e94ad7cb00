// The optimizer: master weights and moments of this rank's share of a stage, and the optimizer
// step.
#pragma once

#include <cstdint>
#include <memory>

#include "base/exact_sum.h"
#include "config/config.h"
#include "optim/qk_clip.h"
#include "optim/rules.h"
#include "optim/states.h"
#include "optim/whole_matrices.h"
#include "parallel/gradients.h"
#include "parallel/parameters.h"

namespace trireme {

class Optimizer {
 public:
  // Plans without allocating. All arguments except the configuration must outlive the optimizer.
  // `width`: width_ratio() of the model.
  Optimizer(const Stage& stage, const StateLayout& layout, Parameters& parameters,
            const Gradients& gradients, const OptimizerConfig& config,
            const OffloadOptions& offload = {}, double width = 1);

  // Master weights (if the compute type is not the accumulation type), moments, and buffers of
  // unsharded 2-D parameters.
  const MemoryPlan& memory() const { return memory_; }
  // `groups` must outlive this object.
  void allocate(const Groups& groups);

  // Adds the squared gradients that this rank owns to a sum in device memory, in blocks of
  // parameters whose boundaries do not depend on the layout. `counts(parameter)` tells whether this
  // rank counts it: true on exactly one of several copies.
  void add_squares(ExactSum* sum, const std::function<bool(const ParameterSpec&)>& counts) const;

  // Sets the scalars of the next step's kernels: update count and bias corrections.
  void describe_next_step(StepBlock& block) const;
  // Call when the passes of a step begin: prefetches the offloaded states that the step needs
  // first. States do not depend on gradients, and the step may still be skipped.
  void expect_step();
  // Runs one step: updates master weights, moments and compute copies, here and on the ranks that
  // share them. `block` is in device memory, with describe_next_step()'s values, the learning rate,
  // the gradient multiplier (clipping and inverse loss scale), and the seed of stochastic rounding
  // of bf16 moments, which is the same for every layout with equal tensor parallelism. Then scales
  // query and key projections if `clip` is given.
  void step(const StepBlock* block, const QkClip* clip = nullptr);

  // Initializes masters and compute copies: a pure function of (seed, name, element), independent
  // of the layout.
  void initialize(std::int64_t seed);
  // Copies the masters to the compute copies, after loading them.
  void refresh_compute();

  // Number of steps applied; determines the bias correction.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

  // Number of moments stored for a parameter: 1 or 2.
  int moments(int parameter) const { return entry_for(parameter).moments; }
  // Type of masters; moments have the same type, or bf16.
  DType dtype() const { return stage_.definition().accumulate(); }
  DType moment_dtype() const { return moment_dtype_; }
  const StateLayout& layout() const { return layout_; }
  // Calls use(slice, master) for all states that this rank owns, in pieces.
  void for_each_master(const std::function<void(const OwnedSlice&, const std::byte*)>& use);
  // Records when states are updated and moved; null: no trace.
  void set_trace(Trace* trace);
  const States& states() const { return states_; }
  States& states() { return states_; }

  // Address of the states of an owned slice that are in memory.
  std::byte* master(const OwnedSlice& slice) const;
  std::byte* moment(const OwnedSlice& slice, int which) const;

 private:
  // Phase of the step on a range: computes the direction of unsharded 2-D parameters, or updates.
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
  // Calls body(piece) for each part of a slice as it becomes available.
  template <class Body>
  void for_each_piece(const OwnedSlice& slice, const Body& body);
  // By bucket: the existing arrays of `mask`, or those that a phase of the step needs.
  std::vector<unsigned> arrays(unsigned mask) const;
  std::vector<unsigned> arrays(Phase phase) const;
  void begin_phase(Phase phase);
  void begin_masters(bool reads, bool writes);
  void balance(const OwnedSlice& piece);
  void update(const OwnedSlice& slice, const StepBlock* block, Phase phase);
  void update_block(const OwnedSlice& slice, const StepBlock* block, Phase phase);
  double decay_of(const ParameterSpec& spec) const;
  void scale_by_width(UpdateRange& range, int parameter) const;
  void clip_rows(const OwnedSlice& slice);
  void store_moments(const OwnedSlice& slice, const StepBlock* block, void* const* values);
  // Runs body(slice) over all slices and publishes each bucket when it is done.
  template <class Body>
  void for_each_slice(const Body& body);

  const Stage& stage_;
  const StateLayout& layout_;
  Parameters& parameters_;
  const Gradients& gradients_;
  OptimizerConfig config_;
  const OptimizerEntry& entry_;  // of the configuration
  const OptimizerEntry& rest_;   // for parameters that the rule does not handle
  double width_;
  DType moment_dtype_;
  States states_;
  std::unique_ptr<WholeMatrices> matrices_;
  MemoryPlan memory_;
  Trace* trace_ = nullptr;
  MemoryBlock widened_;  // one block of each state stored as bf16
  MemoryBlock whole_;    // of matrices_
  std::int64_t steps_ = 0;
  const QkClip* clip_ = nullptr;        // of the current step
  std::vector<std::int32_t> layer_of_;  // by parameter
  bool expected_ = false;               // the first phase of the step has started to read
};

}  // namespace trireme
