// Simulates a schedule with its sends and receives.
#pragma once

#include <vector>

#include "parallel/check.h"

namespace trireme {

// When each action happens, by rank and position. Fails if sends and receives do not match one to
// one in order, or if the ranks deadlock. The lists obey the rules of check_schedule already.
std::vector<std::vector<Span>> simulate(const Schedule& schedule, const CheckOptions& options);

// Time that a rank computes, from its first pass to its last.
struct RankTimes {
  double busy = 0, first = -1, last = 0;

  void add(const Span& pass) {
    if (first < 0) first = pass.begin;
    last = pass.end;
    busy += pass.end - pass.begin;
  }
};

// The same for a schedule with loops, every turn of them, in memory that does not grow with their
// turns. Transfers must be asynchronous and take no time. `report` has peak_in_flight of all ranks.
std::vector<RankTimes> simulate_loops(const Schedule& schedule, const CheckOptions& options,
                                      const ScheduleReport& report);

}  // namespace trireme
