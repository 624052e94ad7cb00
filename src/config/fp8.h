// Checks of FP8 settings.
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses contradictions and unsupported combinations.
void check_fp8(const Config& config);
// Refuses layouts that split blocks of 128 across ranks: their scales would differ from those of
// one rank. Expects degrees that divide the model.
void check_fp8_layout(const Config& config);

}  // namespace trireme
