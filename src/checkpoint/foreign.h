// Checkpoints of other programs, recognized by the names of their files, so that a message can say
// what was found and what to do with it.
#pragma once

#include <string>

#include "base/file.h"

namespace trireme {

// Returns a message fragment such as "it looks like a DeepSpeed checkpoint
// ('mp_rank_00_model_states.pt'), ...", or "" if nothing is recognized. Looks at names only, at
// most a few thousand of them, in the folder and two levels below it. The ending of a name (.pt,
// .ckpt) is enough only in the folder itself.
std::string describe_foreign(const fs::path& path);

// The same for a folder that trireme convert could not read, which is no advice for it then: "...,
// of which files are missing".
std::string describe_incomplete(const fs::path& folder);

// The same for the folder of a run, in which a new run would begin: "" too if it holds checkpoints
// of ours. Only what training programs put directly into it counts, since other files of any kind
// may lie in the same folder.
std::string describe_foreign_run(const fs::path& run);

}  // namespace trireme
