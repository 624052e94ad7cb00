// Detects arguments of a checkpoint's run that are unknown here: a later release or a modified
// Megatron may compute something else.
#pragma once

#include <string>
#include <vector>

#include "formats/megatron/checkpoint.h"

namespace trireme::megatron {

// A note on unknown arguments that could affect the model or its training, or "". Excludes
// arguments in the tables of flags and arguments, values that are False, None, 0 or empty, values
// that real releases store in every run, and names related to files, logs, processes etc.
std::string note_of_unknown_arguments(const std::vector<MegatronArgument>& arguments);

}  // namespace trireme::megatron
