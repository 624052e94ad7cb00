// Resolves the vocabulary of a run, with notes for the user on its tokenizer.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace trireme {

// See resolve_vocabulary() in train/run/setup.h; `note` receives a note for the user, or "".
std::int64_t resolve_vocabulary(Config& config, std::string& note);

}  // namespace trireme
