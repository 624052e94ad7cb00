// Software stacks whose published results the time model is compared with: how the step of each
// differs from the recorded one. Each has one profile for all of its rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct Stack {
  const char* name;
  const char* about;
  const char* fit;  // its fits in machine files have this name
  // Traffic of kernels that are neither products nor attention, relative to ours: what is fused.
  double traffic = 1;
  // Whether the kernels of layers are those of PyTorch, one after another (plan/timing/eager.h),
  // instead of ours with `traffic`; and whether norms are fused then all the same.
  bool eager = false, fused_norm = false;
  // Bytes that the loss and its gradient move for each logit; 0: as ours.
  double loss_traffic = 0;
  // Whether other kernels run at the measured rate of memory, so that only the speed of products
  // and attention is fitted. Ours also compute on CPUs.
  bool memory_at_rate = true;
  // Whether attention is FlashAttention 2, which is slower on machines that newer ones are made
  // for.
  bool flash2 = false;
  // Host time for a kernel of ours, in seconds; 0: as the machine file says.
  double host = 0;
  // Queries, keys and values have products of their own, and so have a gate and what it opens.
  bool separate_products = false;
  // Every second product of a layer (keys, what follows attention, what a gate opens) is computed
  // again in the backward pass although ours are kept, and so are rotations.
  bool every_second_again = false;
  // Recomputed layers run to their end, although nothing reads what comes last.
  bool whole_recomputation = false;
  // Gradients: bytes on the wire relative to ours, passes over them in memory, and whether the
  // device waits for their sums immediately. Gathered parameters: passes over them.
  double gradient_bytes = 1;
  double gradient_passes = 0, gather_passes = 0;
  // Passes over what ranks of a tensor group gather or scatter, which lies in another order.
  double tensor_passes = 0;
  bool blocking_gradients = false;
  // A gradient that does not fuse into its product: bytes of memory for each element, where
  // gradients of micro-batches are added up.
  double accumulation_traffic = 0;
  // Whether a stage computes nothing while it sends: in the schedule 1f1b only, or always.
  enum class Blocking : std::uint8_t { never, in_1f1b, always };
  Blocking blocking_sends = Blocking::never;
  // Whether each rank of a tensor group sends its share, which the receivers gather again.
  bool shared_sends = false;
  // Whether a stage is ready to receive before it needs to (rank_replay.cpp says when).
  bool early_receives = false;
  // Bytes of an element relative to ours: gradients (4), master weights (4), moments (4 each), and
  // what is kept of activations.
  double gradient_memory = 1, master_memory = 1, moment_memory = 1, activation_memory = 1;
  // Bytes of a logit, none of which we keep whole, and of what does not depend on the model.
  double logit_memory = 0, runtime_memory = 0;

  bool is_own() const { return std::string(name) == "trireme"; }
};

const std::vector<Stack>& all_stacks();
// Fails (exit code 2), naming those that are known.
const Stack& find_stack(const std::string& name);

}  // namespace trireme
