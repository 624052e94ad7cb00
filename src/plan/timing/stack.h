// Software stacks whose published results validate the time model: differences of each stack's step
// from the recorded step. Each has one profile for all its rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct Stack {
  const char* name;
  const char* about;
  const char* fit;  // its fits in machine files have this name
  // Traffic of kernels other than products and attention relative to ours: the effect of fusion.
  double traffic = 1;
  // Whether layers use PyTorch's separate kernels (plan/timing/eager.h) instead of ours with
  // `traffic`; and whether norms are fused even so.
  bool eager = false, fused_norm = false;
  // Bytes per logit moved by the loss and its gradient; 0: as ours.
  double loss_traffic = 0;
  // Whether other kernels run at the measured memory rate, so that only products and attention are
  // fitted. Ours also compute on CPUs.
  bool memory_at_rate = true;
  // Whether attention is FlashAttention 2, which is slower on machines that newer versions
  // target.
  bool flash2 = false;
  // Host time per kernel in seconds; 0: from the machine file.
  double host = 0;
  // Separate products for queries, keys and values, and for gate and up projections.
  bool separate_products = false;
  // Every second product of a layer (keys, attention output, up projection) is recomputed in the
  // backward pass although ours are saved, and so are rotations.
  bool every_second_again = false;
  // Recomputed layers run to the end, although nothing reads the last results.
  bool whole_recomputation = false;
  // Gradients: bytes on the wire relative to ours, passes over them in memory, and whether the
  // device blocks on their reduction. Gathered parameters: passes over them.
  double gradient_bytes = 1;
  double gradient_passes = 0, gather_passes = 0;
  // Passes over data gathered or scattered in a tensor group, to reorder it.
  double tensor_passes = 0;
  bool blocking_gradients = false;
  // Bytes per element for a gradient that is not fused into its product, if gradients of
  // micro-batches are accumulated.
  double accumulation_traffic = 0;
  // Whether a stage is idle while it sends: in the 1f1b schedule only, or always.
  enum class Blocking : std::uint8_t { never, in_1f1b, always };
  Blocking blocking_sends = Blocking::never;
  // Whether each rank of a tensor group sends a part, which the receivers all-gather.
  bool shared_sends = false;
  // Whether a stage posts receives before it needs them (rank_replay.cpp decides when).
  bool early_receives = false;
  // Bytes per element relative to ours: gradients (4), master weights (4), moments (4 each), and
  // saved activations.
  double gradient_memory = 1, master_memory = 1, moment_memory = 1, activation_memory = 1;
  // Bytes per logit, which we never store in full, and bytes independent of the model.
  double logit_memory = 0, runtime_memory = 0;

  bool is_own() const { return std::string(name) == "trireme"; }
};

const std::vector<Stack>& all_stacks();
// Fails (exit code 2), naming the known stacks.
const Stack& find_stack(const std::string& name);

}  // namespace trireme
