// States of a rank's optimizer in a legacy checkpoint of Megatron (`optimizer` in
// model_optim_rng.pt, or distrib_optim.pt next to it) or in one of DeepSpeed without ZeRO: Adam's
// moments of each parameter, and its weights in fp32.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/weight_file.h"
#include "tensors/optimizer_states.h"

namespace trireme {

// The states of the parameters of one chunk of layers, under the names that its weights have.
struct MegatronChunkStates {
  std::unique_ptr<WeightFile> weights;  // in fp32: of those that the model has in another type
  std::array<std::unique_ptr<WeightFile>, adam_moments> moments;
};

struct MegatronRankStates {
  std::vector<MegatronChunkStates> chunks;  // empty where there are no states that are read
  std::int64_t steps = 0;                   // of the optimizer
  std::string left_out;                     // why those that are there are not read, or ""
};

// `chunks` hold the weights of the rank ("model", or "model0", "model1" ...), in the order in which
// the model has its parameters: the optimizer numbers them so within each of its groups. All
// weights in fp32 are read, since each, rounded, has to be the weight that it belongs to.
// Where the run had the distributed optimizer they lie in `distributed`, a file that may be
// missing. Refused (exit code 2): groups without the parameters that they should have, states that
// are missing or of another shape or type, weights in fp32 that are not those of the model,
// parameters that took different numbers of steps.
MegatronRankStates open_megatron_states(std::shared_ptr<const TorchFile> file,
                                        const std::vector<const WeightFile*>& chunks,
                                        const fs::path& distributed);

}  // namespace trireme
