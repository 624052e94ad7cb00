// Folders of Megatron-LM: of a run, of a step in it (iter_0000100, release), and of a rank in that
// (mp_rank_TT[_PPP]).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace trireme {

inline constexpr int most_megatron_ranks = 4096;
// The names of the file that names the newest step of a run, and of the file of a rank.
inline constexpr const char* megatron_tracker_file = "latest_checkpointed_iteration.txt";
inline constexpr const char* megatron_rank_file = "model_optim_rng.pt";

// "mp_rank_01", "mp_rank_01_002".
std::string megatron_rank_folder(int tensor_rank, int stage, bool has_stage);
struct MegatronRankName {
  int tensor_rank = 0, stage = 0;
  int numbers = 0;  // how many the name has
};
// Nothing where the name is not that of a rank's folder.
std::optional<MegatronRankName> megatron_rank_name(std::string_view name);

// Whether the folder looks like one: that of a run, or of one of its steps.
bool is_megatron_folder(const fs::path& folder);

// The folder of the step to read: that which latest_checkpointed_iteration.txt names, or `folder`
// itself where it has no such file. Nothing where that step is not there or the file names none.
std::optional<fs::path> find_megatron_step(const fs::path& folder);
// The same. Refused (exit code 2): where there is none.
fs::path megatron_step_folder(const fs::path& folder);

// What a folder holds, for messages.
std::string names_in_folder(const fs::path& folder);

}  // namespace trireme
