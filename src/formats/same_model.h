// Checks whether another program's file describes the same model as ours. Writers need no list of
// what their format cannot express: their output is read back and compared.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace trireme {

struct ModelDifference {
  std::string key, value;  // of the model to write: "model.qk_norm", "true"
};

// Keys of [model] and [moe] in which two resolved models differ, in configuration order. Ignores
// keys without effect given the other values, and equivalent spellings: 0 for a default, a list of
// all layers for an empty list.
std::vector<ModelDifference> differences(const ModelConfig& wanted, const ModelConfig& said);
// Same, without keys that only affect training: the differences that change results.
std::vector<ModelDifference> differences_of_results(const ModelConfig& wanted,
                                                    const ModelConfig& said);

}  // namespace trireme
