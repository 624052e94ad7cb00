// Optimizer states of a rank in a legacy Megatron checkpoint (`optimizer` in model_optim_rng.pt, or
// distrib_optim.pt next to it) or in a DeepSpeed checkpoint without ZeRO: Adam moments and fp32
// weights of each parameter.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/weight_file.h"
#include "tensors/optimizer_states.h"

namespace trireme {

// States of the parameters of a model chunk, under the names of their weights.
struct MegatronChunkStates {
  std::unique_ptr<WeightFile> weights;  // fp32 weights, except those that are fp32 in the model
  std::array<std::unique_ptr<WeightFile>, adam_moments> moments;
};

struct MegatronRankStates {
  std::vector<MegatronChunkStates> chunks;  // empty if no states are read
  std::int64_t steps = 0;                   // optimizer steps
  std::string left_out;                     // why existing states are not read, or ""
};

// `chunks` are the rank's weights ("model", or "model0", "model1" ...) in the model's
// parameter order, which the optimizer uses for numbering within each group. All fp32 weights
// are read, because each one, rounded, must equal its weight in the model. With the
// distributed optimizer, states are in `distributed`, a file that may be missing. Refused
// (exit code 2): groups without the expected parameters, states that are missing or of another
// shape or type, fp32 weights that do not match the model's, parameters with different step
// counts.
MegatronRankStates open_megatron_states(std::shared_ptr<const TorchFile> file,
                                        const std::vector<const WeightFile*>& chunks,
                                        const fs::path& distributed);

}  // namespace trireme
