// Recognizes checkpoints of other programs by their file names, for messages that say what was
// found and how to convert it.
#pragma once

#include <string>

#include "base/file.h"

namespace trireme {

// Returns a message fragment such as "it looks like a DeepSpeed checkpoint
// ('mp_rank_00_model_states.pt'), ...", or "" if nothing is recognized. Checks only names, at most
// a few thousand, in the folder and two levels below it. File extensions (.pt, .ckpt) alone are
// sufficient only in the folder itself.
std::string describe_foreign(const fs::path& path);

// Same, for a folder that trireme convert could not read, so that converting is no advice: "..., of
// which files are missing".
std::string describe_incomplete(const fs::path& folder);

// Same, for a run's folder in which a new run would start: also "" if it holds Trireme checkpoints.
// Considers only files that training programs write directly into the folder, since it may contain
// unrelated files.
std::string describe_foreign_run(const fs::path& run);

}  // namespace trireme
