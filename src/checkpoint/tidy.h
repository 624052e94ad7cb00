// Cleans up a folder of checkpoints after a killed save.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/progress.h"

namespace trireme {

// If a save that replaces an existing step was killed between two renames (on file systems without
// atomic exchange), the complete checkpoint that it was replacing gets its name back. All other
// partial folders are removed. Requires that no other process writes there. Returns a line for the
// user per action taken or failed.
std::vector<std::string> tidy_checkpoints(const fs::path& folder, FileProgress* progress = nullptr);

// If a save was killed between renaming its checkpoint and writing `latest`, sets `latest` to
// `checkpoint`, from which the run resumes, and removes an unfinished `latest`. Requires that no
// other process writes there. Returns a line for the user, or "".
std::string repair_latest(const fs::path& checkpoint);

// Puts the folder `from` in the place of `to`, which may exist: its content is then in `from`, or
// in `aside` on file systems without atomic exchange.
void replace_folder(const fs::path& from, const fs::path& to, const fs::path& aside);

// Removes the checkpoint of a step. A folder that is partly removed does not look like a
// checkpoint. Returns "" or the error.
std::string remove_checkpoint(const fs::path& folder, std::int64_t step, FileProgress* progress);

// Removes a folder file by file, with progress; returns "" or the error.
std::string remove_folder(const fs::path& folder, FileProgress* progress);

}  // namespace trireme
