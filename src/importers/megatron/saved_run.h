// What Megatron-Core's distributed checkpoints say of a run besides its tensors: common.pt.
#pragma once

#include "checkpoint/manifest.h"
#include "config/config.h"
#include "formats/torch/writer.h"

namespace trireme::megatron {

// Weights from which Megatron starts at step 0. `arguments` are those of arguments_of().
TorchDict saved_release(const TorchDict& arguments);

// Progress, the settings of Adam and the schedule of the learning rate of a run that Megatron
// continues. Its optimizer is read by the distributed optimizer and by that of fp32 runs.
TorchDict saved_run(const TorchDict& arguments, const Config& config, const CheckpointState& state);

// What of the run Megatron is not told, or "".
std::string unsaid_of_run(const Config& config);

}  // namespace trireme::megatron
