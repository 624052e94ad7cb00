// Sequence length warmup (Li et al. 2022) with DeepSpeed's fixed_linear and fixed_root schedules. A
// pure function of the step: no state to save.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "config/config.h"
#include "data/batch.h"
#include "train/schedule/batch_schedule.h"

namespace trireme {

class Curriculum {
 public:
  // For a configuration that passed validate().
  explicit Curriculum(const Config& config);

  bool active() const { return active_; }
  // Sequence length of the step after `steps` completed ones. Never decreases.
  std::int64_t length(std::int64_t steps) const;
  // All lengths in ascending order; the last one is model.seq_length.
  std::vector<std::int64_t> lengths() const;

 private:
  CurriculumConfig config_;
  bool active_;
  std::int64_t full_;
};

// Progress of a run with these batch sizes and lengths after `steps` steps.
struct Consumed {
  std::int64_t steps = 0, samples = 0, tokens = 0;
};

// Advances step by step from `consumed` until `enough` is true, checked before each step.
Consumed consumed_until(const BatchSchedule& batches, const Curriculum& curriculum,
                        const std::function<bool(const Consumed&)>& enough, Consumed consumed = {});

// Keeps the first `length` positions of each sequence.
void cut(Batch& batch, std::int64_t length);

}  // namespace trireme
