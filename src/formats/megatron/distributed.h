// States of Megatron's distributed optimizer for a rank in a legacy checkpoint:
// distrib_optim.pt, next to model_optim_rng.pt. It has no parameter names, only one flat buffer
// per model chunk.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "formats/megatron/optimizer.h"

namespace trireme {

inline constexpr const char* megatron_distributed_file = "distrib_optim.pt";

// A model chunk's parameters in the optimizer's order, the reverse of the model's order.
struct MegatronBufferPart {
  std::int64_t count = 0;
  bool alone = false;  // may have its own bucket: an embedding shared between stages
};

// Possible starts of each part in a buffer of `total` elements that concatenates buckets without
// their padding. The bucket size is unknown. Empty if nothing fits; nullopt if there are too many
// candidates to search.
using MegatronPlacements = std::vector<std::vector<std::int64_t>>;
std::optional<MegatronPlacements> megatron_placements(const std::vector<MegatronBufferPart>& parts,
                                                      std::int64_t total);

// Reads the states of `chunks`, whose weights are in the model's order; this file has no step
// count. Uses the placement for which all fp32 weights, rounded, equal the model's; unless exactly
// one placement matches, no states are read.
MegatronRankStates open_distributed_states(const std::shared_ptr<const TorchFile>& file,
                                           const std::vector<const WeightFile*>& chunks);

}  // namespace trireme
