// Optimal save interval of a run by Young and Daly, and the resulting share of time spent training,
// from a simulation with random failures. Times are in seconds.
#pragma once

#include <cstdint>

namespace trireme {

// A run with random failures.
struct FailingRun {
  double mtbf = 0;     // mean time between failures of the whole job
  double stall = 0;    // time that a save blocks training
  double write = 0;    // from the beginning of a save until the checkpoint is complete: >= stall
  double restart = 0;  // from a failure, or a start that failed, to the first step
  double start_success = 1;  // share of starts that reach the first step
};

// Published: Llama 3 405B had 419 unexpected interruptions on 16,384 GPUs in 54 days (Grattafiori
// et al. 2024). Mean time between failures of one device.
inline constexpr double llama3_device_mtbf = 54.0 * 86400 * 16384 / 419;

// Young 1974: sqrt(2 stall mtbf). Accurate if saves are short compared to the mtbf.
double young_interval(double stall, double mtbf);
// Daly 2006: a higher-order approximation; if a save takes more than twice the mean time between
// failures, that time.
double daly_interval(double stall, double mtbf);
// The recommended interval: Daly's, but at least `write`, since a save must end before the next.
double best_interval(const FailingRun& run);

// Shares of the total time, which add up to 1.
struct TimeShares {
  double training = 0;  // the effective training time ratio (ETTR)
  double saving = 0;    // waiting for saves
  double lost = 0;      // computed but not saved before a failure
  double restarting = 0;
};

struct SimulatedRun {
  TimeShares shares;
  std::int64_t failures = 0;
};

// Simulates a run of `duration` with a save after each `interval` of training. Failures are random
// with the given mean time, also during saves and restarts, and determined by the seed. All members
// of `run` except start_success must be above 0; stall, write and restart may be 0.
SimulatedRun simulate(const FailingRun& run, double interval, double duration, std::uint64_t seed);

}  // namespace trireme
