// Recognises folders with checkpoints of other programs.
#pragma once

#include <string>

#include "base/file.h"

namespace trireme::megatron {

// "a checkpoint of Megatron (iter_0001000)", or "" where the folder holds none, is a run of our
// own, or is not there.
std::string foreign_checkpoint(const fs::path& folder);

}  // namespace trireme::megatron
