// Checks of sequence splitting: context parallelism, and exact sums over blocks of
// tokens.
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses (exit code 2) sequence lengths that cannot be split as configured. Expects sizes and
// degrees that are valid by themselves.
void check_sequences(const Config& config);

}  // namespace trireme
