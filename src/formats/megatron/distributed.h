// States of Megatron's distributed optimizer for a rank in a legacy checkpoint: distrib_optim.pt,
// next to model_optim_rng.pt. It names no parameter: all lie in one buffer for each chunk of
// layers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "formats/megatron/optimizer.h"

namespace trireme {

inline constexpr const char* megatron_distributed_file = "distrib_optim.pt";

// The parameters of a chunk as the optimizer takes them: in the reverse of the model's order.
struct MegatronBufferPart {
  std::int64_t count = 0;
  bool alone = false;  // may have a bucket of its own: an embedding that stages share
};

// Where each of the parts can begin in a buffer of `total` elements whose buckets follow each other
// without what fills up their ends. How large buckets were is not known. Empty where nothing fits;
// nothing where there are too many ways to look at.
using MegatronPlacements = std::vector<std::vector<std::int64_t>>;
std::optional<MegatronPlacements> megatron_placements(const std::vector<MegatronBufferPart>& parts,
                                                      std::int64_t total);

// The states of `chunks`, whose weights are in the model's order; the number of steps is not in
// this file. Of the ways in which parameters can lie there, that one is taken with which all
// weights in fp32, rounded, are those of the model; without exactly one such way, all is left out.
MegatronRankStates open_distributed_states(const std::shared_ptr<const TorchFile>& file,
                                           const std::vector<const WeightFile*>& chunks);

}  // namespace trireme
