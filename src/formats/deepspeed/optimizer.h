// States of DeepSpeed's optimizer without ZeRO (`optimizer` in mp_rank_XX_model_states.pt): those
// of all parameters of a model-parallel rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/zero_states.h"

namespace trireme {

// Files of weights in the model's order, each with what comes before its names elsewhere.
struct NamedFile {
  std::string prefix;
  const WeightFile* file = nullptr;
};
using NamedWeights = std::vector<NamedFile>;

struct PlainStates {
  ZeroStates states;
  std::string left_out;  // why those that are there are not read, or ""
};

// Of plain Adam in fp32, and of both optimizers for fp16: with flat groups and without. `weights`
// live as long as the states. Refused (exit code 2): as open_megatron_states does.
PlainStates open_plain_states(const std::shared_ptr<const TorchFile>& file,
                              const NamedWeights& weights);

}  // namespace trireme
