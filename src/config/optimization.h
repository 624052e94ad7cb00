// Checks of [optimizer]: rates, moments and the learning-rate schedule.
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses contradictions, and values that the run's arithmetic cannot represent.
void check_optimization(const Config& config);

}  // namespace trireme
