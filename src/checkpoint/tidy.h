// Cleans up a folder of checkpoints after a killed save.
#pragma once

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

// Removes a folder file by file, with progress; returns "" or the error.
std::string remove_folder(const fs::path& folder, FileProgress* progress);

}  // namespace trireme
