// Checks of parallel.exact_leaves: sums that do not depend on the tensor-parallel size.
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses (exit code 2) leaf counts that the model or the layout does not support, and features not
// covered by leaves. Expects sizes and degrees that are valid by themselves.
void check_exact_leaves(const Config& config);

}  // namespace trireme
