// Spikes of the loss: detection, and how a run continues after one.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace trireme {

// Decides by losses and counts only, which are the same on all ranks and in every run: a repeated
// run has the same spikes and continues in the same way.
class LossSpikes {
 public:
  LossSpikes() = default;  // finds none
  explicit LossSpikes(const TrainConfig& config);

  bool active() const { return policy_ != SpikePolicy::none; }
  // A loss that is not finite is a spike. Another one is where it stands that many standard
  // deviations above the median of the last losses, once there is a whole window of them. The
  // deviation is that of a normal distribution with the same median distance from the median, and
  // at least a thousandth of the median.
  bool is_spike(double loss) const;
  // "the loss 9.81 is 23.1 standard deviations above the median of the last 128 (3.21)"
  std::string text(double loss) const;

  // The update of a step with this loss was done.
  void add(double loss);
  // It was not, since it is a spike. Throws Error where that has happened too often, and no end is
  // in sight.
  void add_spike(double loss);

  // A checkpoint of the run's own plan was saved. Others, as of a run that is interrupted, would
  // not be there in another run, and are no places to go back to.
  void saved(std::int64_t step);
  // The step to roll back to after a spike in that step: the newest such checkpoint that is old
  // enough. Nothing if only the step is skipped.
  std::optional<std::int64_t> rollback_step(std::int64_t step) const;
  // The states are those of that checkpoint again, which had these spikes.
  void rolled_back(const LossSpikes& then, std::int64_t step);

  // Text that a checkpoint keeps of it.
  std::string json() const;
  // Restores from that, if it fits this run's configuration. Rejects (exit code 2) what json()
  // cannot have written.
  void restore(const std::string& json);

 private:
  static constexpr int patience = 20;  // spikes, without a step that was taken or saved in between

  double median() const;
  double deviation() const;

  SpikePolicy policy_ = SpikePolicy::none;
  std::size_t window_ = 0;
  double sigma_ = 0;
  std::int64_t back_steps_ = 0;
  std::deque<double> losses_;        // of steps that were taken, the newest last
  std::vector<std::int64_t> saves_;  // steps of the plan's checkpoints that may be gone back to
  int spikes_ = 0;                   // since the last step that was taken (skip) or saved (back)
};

}  // namespace trireme
