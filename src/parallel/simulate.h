// Simulates a schedule with its sends and receives.
#pragma once

#include <vector>

#include "parallel/check.h"

namespace trireme {

// When each action happens, by rank and position. Fails if sends and receives do not match one to
// one in order, or if the ranks deadlock. The lists obey the rules of check_schedule already.
std::vector<std::vector<Span>> simulate(const Schedule& schedule, const CheckOptions& options);

}  // namespace trireme
