// A single pass over the run from save to save, with failures drawn one at a time.
#include "operations/save_interval.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/random.h"

namespace trireme {
namespace {

constexpr std::uint64_t failures_stream = 1, starts_stream = 2;

class Simulation {
 public:
  Simulation(const FailingRun& run, double interval, double duration, std::uint64_t seed)
      : run_(run), interval_(interval), duration_(duration), seed_(seed) {
    draw_failure();
  }

  SimulatedRun result() {
    while (now_ < duration_) train_to_the_next_save();
    SimulatedRun result;
    result.failures = failures_;
    const double training = saved_ + unsaved();
    result.shares = {training / now_, saving_ / now_, lost_ / now_, restarting_ / now_};
    return result;
  }

 private:
  double unsaved() const { return work_ - saved_; }

  void train_to_the_next_save() {
    if (!pass(interval_, work_)) return;
    // The previous save must finish first.
    if (complete_at_ != never && !pass(complete_at_ - now_, saving_)) return;
    begun_ = work_;
    complete_at_ = now_ + run_.write;
    pass(run_.stall, saving_);
  }

  // Advances the time, counted in `into`; returns false if a failure occurs first.
  bool pass(double time, double& into) {
    const double end = now_ + time;
    into += std::min(end, next_failure_) - now_;
    now_ = std::min(end, next_failure_);
    // A checkpoint counts from its completion.
    if (complete_at_ <= now_) {
      saved_ = begun_;
      complete_at_ = never;
    }
    if (end <= next_failure_) return true;
    fail();
    return false;
  }

  void fail() {
    lost_ += unsaved();
    work_ = saved_;
    complete_at_ = never;
    for (;;) {
      ++failures_;
      draw_failure();
      const double started = now_ + run_.restart;
      const bool starts = uniform(seed_, starts_stream, starts_++) < run_.start_success;
      const double end = std::min(started, next_failure_);
      restarting_ += end - now_;
      now_ = end;
      if (starts && started <= next_failure_) return;
      if (now_ >= duration_) return;
    }
  }

  void draw_failure() {
    const double u = uniform(seed_, failures_stream, drawn_++);
    next_failure_ = now_ - run_.mtbf * std::log1p(-u);
  }

  static constexpr double never = std::numeric_limits<double>::infinity();

  const FailingRun& run_;
  const double interval_, duration_;
  const std::uint64_t seed_;
  double now_ = 0, next_failure_ = 0;
  double work_ = 0;               // total training done
  double saved_ = 0, begun_ = 0;  // of it: saved; covered by the latest save
  double complete_at_ = never;    // completion time of the latest save
  double saving_ = 0, lost_ = 0, restarting_ = 0;
  std::int64_t failures_ = 0;
  std::uint64_t drawn_ = 0, starts_ = 0;
};

}  // namespace

double young_interval(double stall, double mtbf) {
  return std::sqrt(2 * stall * mtbf);
}

double daly_interval(double stall, double mtbf) {
  if (stall >= 2 * mtbf) return mtbf;
  const double ratio = stall / (2 * mtbf);
  return young_interval(stall, mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - stall;
}

double best_interval(const FailingRun& run) {
  return std::max(daly_interval(run.stall, run.mtbf), run.write);
}

SimulatedRun simulate(const FailingRun& run, double interval, double duration, std::uint64_t seed) {
  TRIREME_CHECK(run.mtbf > 0 && interval > 0 && duration > 0 && run.start_success > 0);
  TRIREME_CHECK(run.stall >= 0 && run.write >= run.stall && run.restart >= 0);
  return Simulation(run, interval, duration, seed).result();
}

}  // namespace trireme
