// Rules of what cuts sequences into parts: context parallelism, and exact sums over blocks of
// tokens.
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses (exit code 2) sequences that cannot be cut as the configuration says. Sizes and degrees
// are valid by themselves.
void check_sequences(const Config& config);

}  // namespace trireme
