// Rules of [moe], apart from those of the dense model.
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses what no run can compute, and keys that would do nothing.
void check_experts(const ModelConfig& model);
// Refuses what experts conflict with.
void check_experts(const Config& config);

}  // namespace trireme
