// Layout on disk: a folder of checkpoints has one folder per step and the small file `latest`.
//
//   step-00000100/              a whole checkpoint: manifest.json and shard-RRRRR.safetensors
//   step-00000200.tmp/          a save that was killed; removed by the next start or save
//   step-00000100.old.tmp/      a whole checkpoint that is being replaced by one of the same step
//   latest                      "step-00000100"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace trireme {

inline constexpr std::string_view manifest_file = "manifest.json";
inline constexpr std::string_view latest_file = "latest";

std::string step_folder(std::int64_t step);
std::string partial_folder(std::int64_t step);
std::string replaced_folder(std::int64_t step);
std::string shard_file(int rank);

// Parses the step of a name such as "step-00000100"; nullopt for any other name.
std::optional<std::int64_t> step_of(std::string_view name);
// Parses the step of a name such as "step-00000100.old.tmp".
std::optional<std::int64_t> replaced_step_of(std::string_view name);

// Steps with a folder that contains a manifest, ascending.
std::vector<std::int64_t> saved_steps(const fs::path& folder);

// Partial folders left by killed saves.
std::vector<fs::path> partial_folders(const fs::path& folder);

// The content of `latest`; nullopt if it is missing.
std::optional<std::string> read_latest(const fs::path& folder);

// The run's folder that contains a checkpoint: RUN of RUN/checkpoints/step-00000100.
fs::path run_folder(const fs::path& checkpoint);

// A checkpoint resolved from a path.
struct FoundCheckpoint {
  fs::path folder;         // the checkpoint's folder; not verified
  bool by_latest = false;  // found from a folder of checkpoints, not named by the caller
  std::string note;        // for the user, if `latest` does not lead there; or ""
};

// Resolves a path to a checkpoint: a step's folder; a folder of checkpoints, by its `latest`; or a
// run's folder with `checkpoints/`. A later complete step that was written after `latest` takes
// precedence: the process was killed before updating `latest`. (Older folders of later steps belong
// to another branch of training.) If `latest` or the step it names is missing, the last complete
// step is used. Returns nullopt if the path does not exist or has no checkpoint, which is how a run
// tells a fresh start from a resume. A `latest` without a valid step name is refused with exit code
// 2.
std::optional<FoundCheckpoint> find_checkpoint(const fs::path& path);

}  // namespace trireme
