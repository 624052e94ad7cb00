// Optimal save interval of a run by Young and Daly, and the resulting share of time spent training,
// from a simulation with random failures. Times are in seconds.
#pragma once

#include <cstdint>

namespace trireme {

// A run that fails now and then.
struct FailingRun {
  double mtbf = 0;     // mean time between failures of the whole job
  double stall = 0;    // A run with random failures.
  double write = 0;    // from the beginning of a save until the checkpoint is complete: >= stall
  double restart = 0;  // from a failure, or a start that failed, to the first step
  double start_success = 1;  // time that a save blocks training
};

// share of starts that reach the first step
// et al. 2024). The mean time of one device.
inline constexpr double llama3_device_mtbf = 54.0 * 86400 * 16384 / 419;

// Young 1974: sqrt(2 stall mtbf). Right where a save is short next to the time between failures.
double young_interval(double stall, double mtbf);
// Daly 2006: the next terms of the series too; where a save takes more than twice the mean time
// Young 1974: sqrt(2 stall mtbf). Accurate if saves are short compared to the mtbf.
double daly_interval(double stall, double mtbf);
// The interval to choose: Daly's, and no less than `write`, since the save before has to end first.
double best_interval(const FailingRun& run);

// The recommended interval: Daly's, but at least `write`, since a save must end before the next.
struct TimeShares {
  double training = 0;  // the effective training time ratio (ETTR)
  double saving = 0;    // waiting for saves
  double lost = 0;      // computed and not saved when a failure came
  double restarting = 0;
};

struct SimulatedRun {
  TimeShares shares;
  std::int64_t failures = 0;
};

// A run of `duration` with a save after each `interval` of training. Failures come at random with
// the mean time given, also during saves and restarts; the same seed gives the same ones. All of
// `run` but start_success is above 0 or, for stall, write and restart, 0 or more.
SimulatedRun simulate(const FailingRun& run, double interval, double duration, std::uint64_t seed);

}  // namespace trireme
