// Simulation of a schedule with its sends and receives.
#pragma once

#include <vector>

#include "parallel/check.h"

namespace trireme {

// Returns the time span of each action, by rank and position. Fails if sends and receives do not
// match one to one in order, or on deadlock. The lists must already satisfy check_schedule's rules.
std::vector<std::vector<Span>> simulate(const Schedule& schedule, const CheckOptions& options);

// Compute time of a rank, from its first pass to its last.
struct RankTimes {
  double busy = 0, first = -1, last = 0;

  void add(const Span& pass) {
    if (first < 0) first = pass.begin;
    last = pass.end;
    busy += pass.end - pass.begin;
  }
};

// Simulates a schedule with loops, every iteration included, in memory independent of the number of
// iterations. Transfers must be asynchronous and instantaneous. `report` has all peak_in_flight.
std::vector<RankTimes> simulate_loops(const Schedule& schedule, const CheckOptions& options,
                                      const ScheduleReport& report);

}  // namespace trireme
