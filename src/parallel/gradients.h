// Data-parallel gradient reduction of a stage: gradients are summed over micro-batches and ranks,
// in full on every rank or (ZeRO) only each rank's part, in floating point or exactly. Reductions
// overlap with the backward pass.
#pragma once

#include <vector>

#include "parallel/groups.h"
#include "parallel/states/state_layout.h"

namespace trireme {

class Gradients {
 public:
  // Plans without allocating. Both arguments must outlive this object.
  Gradients(Stage& stage, const StateLayout& layout);

  const MemoryPlan& memory() const { return memory_; }
  void allocate(const Groups& groups);

  // Begins a step in which each gradient is a sum of `global_summands` terms over all ranks: one
  // per micro-batch, or per exact block. `block`, in device memory, has the loss scale and the seed
  // of stochastic rounding of bf16 sums, offset by rank. `overflows`, also in device memory,
  // counts terms that exact sums cannot represent. Both must stay valid until the step ends.
  void begin_step(const StepBlock* block, std::int64_t global_summands, std::int64_t* overflows);
  // Parameters for passes whose graphs add to fixed-point gradients directly.
  FixedPoint fixed_point() const { return {limit_, overflows_}; }
  // Call before a pass that produces gradients; `last`: its micro-batch is this rank's last one.
  void begin_pass(bool last) { last_ = last; }
  // Call before and after segments: frees the window that the segment writes; takes the result.
  void before(Pass pass, int segment);
  void after(Pass pass, int segment);

  // The end of a step, in this order and on all ranks:
  // 1. When no pass of the step produces gradients any more, starts the remaining reductions. Most
  // are already in flight since each segment was complete; sums over copies of the states depend on
  // those within a copy, and start here.
  void reduce();
  // Waits until each rank has the sum of its parts.
  void finish();
  // 2. Adds the two copies of a tied parameter, on this rank or with the other end of the
  // pipeline.
  void tie_with(Gradients& other, int own_parameter, int other_parameter);
  void tie_across(Communicator& embedding, int parameter);
  // 3. Adds the partial gradients of sequence-parallel ranks and of those that share heads, and
  // converts exact sums to floating point. Then the optimizer reads part(), which returns the final
  // gradients.
  void complete();

  // Returns this rank's part of a bucket, after complete(), in the accumulation type or bf16.
  std::byte* part(int bucket) const;
  DType dtype() const { return kept_ == DType::bf16 ? kept_ : stage_.definition().accumulate(); }

 private:
  struct Pending {
    int bucket;
    std::byte* sum;  // receives this rank's part of the sum
    Work work;
  };
  std::byte* sums(int bucket) const;  // this rank's part of the accumulators
  // Adds the gradients of a pass to `sums`; the first pass of a step overwrites them.
  void add_made(int bucket, std::byte* sums, const std::byte* made, std::int64_t count);
  void add(DType dtype, std::byte* sums, const std::byte* summand, std::int64_t count,
           bool overwrite);
  void add_fixed_point(std::byte* sums, const std::byte* made, std::int64_t count, bool overwrite);
  // The type in which passes produce a bucket's gradients.
  DType made_in(int bucket) const { return layout_.range(bucket).gradients(made_); }
  // Number of elements of a bucket that a window stages for reduction (ZeRO 2, 3).
  std::int64_t staged_elements(int bucket) const;
  std::int64_t most_staged_elements() const;
  bool is_partial(const OwnedSlice& slice) const;
  std::int64_t most_partial_elements() const;
  void add_window(int bucket, int window, std::byte* gradients);
  void clear_padding(int bucket, std::byte* gradients) const;
  void clear_gaps();
  void settle(int window);
  void start_reduction(int bucket);
  void sum_partial_gradients();
  void sum_copied_rows();

  Stage& stage_;
  const StateLayout& layout_;
  DType made_;     // type of the stage's gradients, except fixed-point ones of experts
  DType kept_;     // type of the sums
  DType reduced_;  // type of the window-by-window reduction (ZeRO 2, 3)
  bool parts_only_;
  MemoryPlan memory_;
  MemoryBlock accumulators_, staging_[2], joined_;

  const Groups* groups_ = nullptr;
  bool last_ = false;  // argument of begin_pass()
  const StepBlock* block_ = nullptr;
  std::int64_t* overflows_ = nullptr;
  double limit_ = 0;
  std::vector<int> additions_;       // by bucket: terms added so far in this step
  std::vector<int> written_;         // by bucket: passes of the last micro-batch that wrote it
  std::vector<Pending> pending_[2];  // by window
  std::vector<Work> reductions_;     // by bucket
};

}  // namespace trireme
