// Checks of [moe] beyond the rules of dense models.
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses settings that cannot be computed, and keys that would have no effect.
void check_experts(const ModelConfig& model);
// Refuses conflicts between experts and other sections.
void check_experts(const Config& config);

}  // namespace trireme
