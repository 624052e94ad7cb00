// How often a run should save: the interval of Young and Daly, and what share of the time then
// trains, from a simulation with random failures. Times are in seconds.
#pragma once

#include <cstdint>

namespace trireme {

// A run that fails now and then.
struct FailingRun {
  double mtbf = 0;     // mean time between failures of the whole job
  double stall = 0;    // that a save keeps training waiting
  double write = 0;    // from the beginning of a save until the checkpoint is complete: >= stall
  double restart = 0;  // from a failure, or a start that failed, to the first step
  double start_success = 1;  // share of starts that come to the first step
};

// Published: Llama 3 405B lost 419 times unexpectedly a job of 16,384 GPUs in 54 days (Grattafiori
// et al. 2024). The mean time of one device.
inline constexpr double llama3_device_mtbf = 54.0 * 86400 * 16384 / 419;

// Young 1974: sqrt(2 stall mtbf). Right where a save is short next to the time between failures.
double young_interval(double stall, double mtbf);
// Daly 2006: the next terms of the series too; where a save takes more than twice the mean time
// between failures, that time.
double daly_interval(double stall, double mtbf);
// The interval to choose: Daly's, and no less than `write`, since the save before has to end first.
double best_interval(const FailingRun& run);

// Shares of all time, which add up to 1.
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
