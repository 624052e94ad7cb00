// Opens checkpoints of Megatron-LM, Megatron-Core and Megatron-DeepSpeed as models: their stored
// arguments are interpreted as the flags of the run that wrote them.
#pragma once

#include <functional>
#include <optional>

#include "config/config.h"
#include "formats/foreign_model.h"

namespace trireme::megatron {

// Refused (exit code 2): see MegatronFolder; unsupported arguments.
ForeignModel open_megatron_folder(const fs::path& folder, const ModelSettings& settings = {});

// The run that a file beside a step describes; nullopt without such a file.
using DescribeRun = std::function<std::optional<Config>(const fs::path& step)>;

// Same for TorchDistFolder. If optimizer states are stored by tensor name, uses their fp32 weights
// and Adam moments. `describe` is asked if the step holds no arguments.
ForeignModel open_torch_dist_folder(const fs::path& folder, const ModelSettings& settings = {},
                                    const DescribeRun& describe = nullptr);

// Same for DeepspeedFolder: uses the optimizer's fp32 weights and Adam moments if
// present.
ForeignModel open_deepspeed_folder(const fs::path& folder, const ModelSettings& settings = {});

}  // namespace trireme::megatron
