// Puts a folder of checkpoints in order after a save that was killed.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/progress.h"

namespace trireme {

// A save that replaces an existing step may have been killed between two renames (on file systems
// that cannot exchange two names): then the whole checkpoint that it was to replace gets its name
// back. Everything else that is unfinished is removed. Only for the sole process that writes there.
// Returns a line for the user about each thing that was done or could not be done.
std::vector<std::string> tidy_checkpoints(const fs::path& folder, FileProgress* progress = nullptr);

// A save may have been killed between the rename of its checkpoint and the writing of `latest`:
// makes `latest` name the checkpoint of that folder, which the run resumes from, and removes an
// unfinished one. Only for the sole process that writes there. Returns a line for the user, or "".
std::string repair_latest(const fs::path& checkpoint);

// Removes a folder file by file, so that progress shows; "" or why it could not.
std::string remove_folder(const fs::path& folder, FileProgress* progress);

}  // namespace trireme
