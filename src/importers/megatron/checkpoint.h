// Checkpoints of Megatron-LM, Megatron-Core and Megatron-DeepSpeed as models of ours: the arguments
// that they carry are read as the flags of the run that wrote them.
#pragma once

#include "formats/foreign_model.h"

namespace trireme::megatron {

// Refused (exit code 2): see MegatronFolder; arguments that our models cannot compute.
ForeignModel open_megatron_folder(const fs::path& folder, const ModelSettings& settings = {});

// The same for TorchDistFolder. Where the states of the optimizer are there under the names of
// tensors, weights come from its own in fp32, and Adam's moments with them.
ForeignModel open_torch_dist_folder(const fs::path& folder, const ModelSettings& settings = {});

// The same for DeepspeedFolder: weights come from the optimizer's in fp32 where these are there,
// and Adam's moments with them.
ForeignModel open_deepspeed_folder(const fs::path& folder, const ModelSettings& settings = {});

}  // namespace trireme::megatron
