// Sequence lengths that grow while training begins (Li et al. 2022), by DeepSpeed's fixed_linear
// and fixed_root schedules. A pure function of the step: nothing needs to be saved.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "config/config.h"
#include "data/batch.h"
#include "train/batch_schedule.h"

namespace trireme {

class Curriculum {
 public:
  // For a configuration that passed validate().
  explicit Curriculum(const Config& config);

  bool active() const { return active_; }
  // Tokens per sequence in the step that follows on `steps` finished ones. Never falls.
  std::int64_t length(std::int64_t steps) const;
  // All lengths that there are, rising; model.seq_length is the last.
  std::vector<std::int64_t> lengths() const;

 private:
  CurriculumConfig config_;
  bool active_;
  std::int64_t full_;
};

// How far a run of these batches and lengths has come after `steps` steps.
struct Consumed {
  std::int64_t steps = 0, samples = 0, tokens = 0;
};

// Goes step by step on from `consumed` until `enough`, which must come, and looks before each step.
Consumed consumed_until(const BatchSchedule& batches, const Curriculum& curriculum,
                        const std::function<bool(const Consumed&)>& enough, Consumed consumed = {});

// Keeps the first `length` positions of each sequence.
void cut(Batch& batch, std::int64_t length);

}  // namespace trireme
