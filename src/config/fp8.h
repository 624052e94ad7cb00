// The rules of products in fp8.
#pragma once

#include "config/config.h"

namespace trireme {

// Rejects contradictions, and what cannot be combined yet.
void check_fp8(const Config& config);
// Blocks of 128 must not be cut by ranks: a number would be rounded with another scale than on one
// rank. Expects degrees that divide the model.
void check_fp8_layout(const Config& config);

}  // namespace trireme
