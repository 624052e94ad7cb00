// Checkpoints of other programs, recognised by the names of their files, so that a message can say
// what was found and what to do with it.
#pragma once

#include <string>

#include "base/file.h"

namespace trireme {

// Two clauses such as "it looks like a DeepSpeed checkpoint ('mp_rank_00_model_states.pt'), ...",
// or "" where nothing is recognised. Looks at names only, at most a few thousand of them, in the
// folder and two levels below it.
std::string describe_foreign(const fs::path& path);

}  // namespace trireme
