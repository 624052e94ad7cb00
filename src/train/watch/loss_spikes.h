// Loss spikes: detection and recovery.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace trireme {

// Decisions depend only on losses and counts, which are the same on all ranks and in every run: a
// repeated run finds the same spikes and recovers in the same way.
class LossSpikes {
 public:
  LossSpikes() = default;  // finds none
  explicit LossSpikes(const TrainConfig& config);

  bool active() const { return policy_ != SpikePolicy::none; }
  // A non-finite loss is a spike. So is one that exceeds the median of the recent losses by this
  // many standard deviations, once a full window of losses exists. The deviation is estimated from
  // the median absolute deviation, as for a normal distribution, and is at least a thousandth of
  // the median.
  bool is_spike(double loss) const;
  // "the loss 9.81 is 23.1 standard deviations above the median of the last 128 (3.21)"
  std::string text(double loss) const;

  // Records the loss of a step whose update was applied.
  void add(double loss);
  // Records the loss of a step that was skipped as a spike. Throws Error if this happened too often
  // without recovery.
  void add_spike(double loss);

  // Records a checkpoint saved on the run's regular schedule. Others, e.g. on interruption, would
  // not exist in another run and are not rollback targets.
  void saved(std::int64_t step);
  // Returns the step to roll back to after a spike in `step`: the newest such checkpoint that is
  // old enough. Empty if the step is only skipped.
  std::optional<std::int64_t> rollback_step(std::int64_t step) const;
  // Records the rollback to that checkpoint, whose state of spikes was `then`.
  void rolled_back(const LossSpikes& then, std::int64_t step);

  // Serializes the state for checkpoints.
  std::string json() const;
  // Restores the state from json()'s text, if it fits this run's configuration. Rejects (exit code
  // 2) text that json() cannot have written.
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
  std::vector<std::int64_t> saves_;  // regular checkpoints that are rollback targets
  int spikes_ = 0;                   // since the last step that was taken (skip) or saved (back)
};

}  // namespace trireme
