// Folders of DeepSpeed: of a run, and of a step in it with the files of its ranks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/torch/file.h"

namespace trireme {

// Whether the folder looks like one: that of a run (latest, latest_universal), or of one of its
// steps.
bool is_deepspeed_folder(const fs::path& folder);

// The folder of the step that is opened for it. Refused (exit code 2): a folder without one, naming
// those that are there.
fs::path deepspeed_step_folder(const fs::path& folder);

// The files of a step, by what their names say.
struct DeepspeedFiles {
  using ByRank = std::map<int, fs::path>;
  ByRank models;                    // by rank of model parallelism
  std::map<int, ByRank> optimizer;  // of ZeRO: by that rank, by rank of data parallelism
  std::map<int, ByRank> layers;     // by number of the module, by rank of tensor parallelism
};
// Refused (exit code 2): a step with experts.
DeepspeedFiles list_deepspeed_files(const fs::path& step);

// Opens the files of ZeRO that belong to a rank of model parallelism, whose own file says how many
// there are. Refused (exit code 2): files that are missing, or more of them.
std::vector<std::shared_ptr<const TorchFile>> open_zero_files(const fs::path& step, int model_rank,
                                                              const DeepspeedFiles::ByRank& found,
                                                              const TorchFile& model);

}  // namespace trireme
