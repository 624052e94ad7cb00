// Arguments of a checkpoint's run that no table of ours knows: what a later release or a changed
// Megatron may compute otherwise.
#pragma once

#include <string>
#include <vector>

#include "formats/megatron/checkpoint.h"

namespace trireme::megatron {

// A note that lists those that could change what the model computes or how it is trained, or "".
// Not listed: what the table of flags or that of arguments knows, what is False, None, 0 or empty,
// what real releases store in every run, and what concerns files, logs, processes and the like.
std::string note_of_unknown_arguments(const std::vector<MegatronArgument>& arguments);

}  // namespace trireme::megatron
