// The vocabulary of a run, with what the user should know of its tokenizer.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace trireme {

// As resolve_vocabulary() of train/setup.h; `note` becomes what the user should know, or "".
std::int64_t resolve_vocabulary(Config& config, std::string& note);

}  // namespace trireme
