// DeepSpeed folders: a run's folder, and its steps with the ranks' files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/torch/file.h"

namespace trireme {

// Whether the folder looks like a DeepSpeed run (latest, latest_universal) or one of its
// steps.
bool is_deepspeed_folder(const fs::path& folder);

// The folder of the step to open. Refused (exit code 2): a folder without a step; the message names
// the steps that exist.
fs::path deepspeed_step_folder(const fs::path& folder);

// The files of a step, classified by their names.
struct DeepspeedFiles {
  using ByRank = std::map<int, fs::path>;
  ByRank models;                    // by model-parallel rank
  std::map<int, ByRank> optimizer;  // ZeRO files by model-parallel rank and data-parallel rank
  std::map<int, ByRank> layers;     // by module number and tensor-parallel rank
};
// Refused (exit code 2): a step with experts.
DeepspeedFiles list_deepspeed_files(const fs::path& step);

// Opens the ZeRO files of a model-parallel rank, whose own file tells their number. Refused (exit
// code 2): missing or surplus files.
std::vector<std::shared_ptr<const TorchFile>> open_zero_files(const fs::path& step, int model_rank,
                                                              const DeepspeedFiles::ByRank& found,
                                                              const TorchFile& model);

}  // namespace trireme
