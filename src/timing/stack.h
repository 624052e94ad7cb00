// Software stacks whose published results the time model is held against: how the step that one of
// them runs differs from the recorded one. Each has one profile for all of its rows.
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
  // Host time for a kernel of ours, in seconds; 0: as the machine file says.
  double host = 0;
  // Forward products that are computed again in the backward pass although ours are kept.
  double products_again = 0;
  // Recomputed layers run to their end, although nothing reads what comes last.
  bool whole_recomputation = false;
  // Gradients: bytes on the wire relative to ours, passes over them in memory, and whether the
  // device waits for their sums at once.
  double gradient_bytes = 1;
  double gradient_passes = 0;
  bool blocking_gradients = false;
  // Whether a stage computes nothing while it sends: in the schedule 1f1b only, or always.
  enum class Blocking : std::uint8_t { never, in_1f1b, always };
  Blocking blocking_sends = Blocking::never;
  // Bytes of an element relative to ours: gradients (4), master weights (4), moments (4 each), and
  // what is kept of activations.
  double gradient_memory = 1, master_memory = 1, moment_memory = 1, activation_memory = 1;
  // Bytes of a logit, none of which we keep whole, and of what does not depend on the model.
  double logit_memory = 0, runtime_memory = 0;

  bool is_own() const { return traffic == 1 && host == 0 && std::string(name) == "trireme"; }
};

const std::vector<Stack>& all_stacks();
// Fails (exit code 2), naming those that are known.
const Stack& find_stack(const std::string& name);

}  // namespace trireme
