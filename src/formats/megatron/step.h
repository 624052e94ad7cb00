// Megatron-LM folders: of a run, of a step (iter_0000100, release), and of a rank
// (mp_rank_TT[_PPP]).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace trireme {

inline constexpr int most_megatron_ranks = 4096;
// Names of the tracker file with the newest step of a run, and of a rank's file.
inline constexpr const char* megatron_tracker_file = "latest_checkpointed_iteration.txt";
inline constexpr const char* megatron_rank_file = "model_optim_rng.pt";

// Name of a rank's folder: "mp_rank_01", "mp_rank_01_002".
std::string megatron_rank_folder(int tensor_rank, int stage, bool has_stage);
struct MegatronRankName {
  int tensor_rank = 0, stage = 0;
  int numbers = 0;  // how many numbers the name has
};
// Returns nullopt if the name is not that of a rank's folder.
std::optional<MegatronRankName> megatron_rank_name(std::string_view name);

// Whether the folder looks like a Megatron run or one of its steps.
bool is_megatron_folder(const fs::path& folder);

// Folder of the step to read: the one named by latest_checkpointed_iteration.txt, or `folder`
// itself without such a file. Returns nullopt if the step does not exist or none is named.
std::optional<fs::path> find_megatron_step(const fs::path& folder);
// Same. Refused (exit code 2): a folder without a step.
fs::path megatron_step_folder(const fs::path& folder);

// Lists a folder's contents for messages.
std::string names_in_folder(const fs::path& folder);

}  // namespace trireme
