// Rules of sums that do not depend on the degree of tensor parallelism.
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses (exit code 2) leaves that the model or the layout cannot have, and all that sums in
// leaves do not cover. Sizes and degrees are valid by themselves.
void check_exact_leaves(const Config& config);

}  // namespace trireme
