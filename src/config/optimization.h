// The rules of [optimizer]: rates, moments, and the schedule of the learning rate.
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses what contradicts itself, and numbers that the arithmetic of the run cannot hold.
void check_optimization(const Config& config);

}  // namespace trireme
