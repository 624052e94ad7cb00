// The `zero` folder of DeepSpeed universal checkpoints: one folder per parameter, with files of its
// whole fp32 weight and Adam moments.
#pragma once

#include <memory>
#include <vector>

#include "base/file.h"
#include "formats/zero_states.h"

namespace trireme {

// `models` are the files of all model-parallel ranks, which list the parameters (param_shapes).
// Refused (exit code 2): parameters without a folder and folders without a parameter, names that
// cannot be a folder, missing files, files of another type or shape than the fp32 parameter,
// parameters of different steps.
ZeroStates open_universal_states(const fs::path& zero,
                                 const std::vector<std::shared_ptr<const TorchFile>>& models);

// Checks a gated MLP parameter of a run with several tensor-parallel ranks. Refused (exit code 2):
// files that do not state that DeepSpeed joined gate and up halves separately; otherwise the ranks'
// rows are simply concatenated.
void require_halves_joined_apart(const fs::path& zero, const std::string& parameter);

}  // namespace trireme
