// The folder `zero` of DeepSpeed's universal checkpoints: a folder for each parameter, with files
// of the whole of it in fp32 and of Adam's moments.
#pragma once

#include <memory>
#include <vector>

#include "base/file.h"
#include "formats/zero_states.h"

namespace trireme {

// `models` are the files of all ranks of model parallelism, which list the parameters
// (param_shapes). Refused (exit code 2): parameters without a folder and folders without a
// parameter, parameters that cannot name a folder, files that are missing or of other
// shapes than that in fp32, parameters of different steps.
ZeroStates open_universal_states(const fs::path& zero,
                                 const std::vector<std::shared_ptr<const TorchFile>>& models);

// For a parameter that holds a gate and what it gates, of a run with several ranks of tensor
// parallelism. Refused (exit code 2): files that do not say that DeepSpeed joined the two apart, in
// which the rows of ranks lie one after the other.
void require_halves_joined_apart(const fs::path& zero, const std::string& parameter);

}  // namespace trireme
