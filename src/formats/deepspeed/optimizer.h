// States of DeepSpeed's optimizer without ZeRO (`optimizer` in mp_rank_XX_model_states.pt), for all
// parameters of a model-parallel rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/zero_states.h"

namespace trireme {

// Weight files in the model's order, each with the prefix that its names have elsewhere.
struct NamedFile {
  std::string prefix;
  const WeightFile* file = nullptr;
};
using NamedWeights = std::vector<NamedFile>;

struct PlainStates {
  ZeroStates states;
  std::string left_out;  // why existing states are not read, or ""
};

// Reads states of plain Adam in fp32 and of both fp16 optimizers, with and without flat groups.
// `weights` must outlive the states. Refused (exit code 2): as for open_megatron_states.
PlainStates open_plain_states(const std::shared_ptr<const TorchFile>& file,
                              const NamedWeights& weights);

}  // namespace trireme
