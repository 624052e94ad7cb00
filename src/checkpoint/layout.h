// Names on disk: a folder of checkpoints holds one folder per step and the small file `latest`.
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

// The step of a name such as "step-00000100"; nothing for any other name.
std::optional<std::int64_t> step_of(std::string_view name);
// The step of a name such as "step-00000100.old.tmp".
std::optional<std::int64_t> replaced_step_of(std::string_view name);

// Steps that have a folder with a manifest, rising.
std::vector<std::int64_t> saved_steps(const fs::path& folder);

// Leftovers of saves that were killed.
std::vector<fs::path> partial_folders(const fs::path& folder);

// The content of `latest`, or nothing if it is missing.
std::optional<std::string> read_latest(const fs::path& folder);

// The run's folder that a checkpoint's folder lies in: RUN of RUN/checkpoints/step-00000100.
fs::path run_folder(const fs::path& checkpoint);

// A checkpoint that a path leads to.
struct FoundCheckpoint {
  fs::path folder;         // of the checkpoint itself; it need not be sound
  bool by_latest = false;  // found from a folder of checkpoints, not named by the caller
  std::string note;        // for the user, where `latest` does not lead there; or ""
};

// The checkpoint that a path means: a step's folder; a folder of checkpoints, by its `latest`; or a
// run's folder with its checkpoints in `checkpoints/`. A later step that is complete and was
// written after `latest` counts instead: the process was killed between the two. (Older ones of
// later steps belong to another branch of training.) Where `latest` is missing, or what it names,
// the last complete step counts. Nothing where the path does not exist or holds no checkpoint: this
// is how a run tells a fresh start from a resume. A `latest` that does not hold the name of a step
// is refused with exit code 2.
std::optional<FoundCheckpoint> find_checkpoint(const fs::path& path);

}  // namespace trireme
