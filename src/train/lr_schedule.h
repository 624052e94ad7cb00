// Learning rate as a pure function of samples, with Megatron's warm-up and decay.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace trireme {

// Lengths are in samples, so that the batch size may change during a run. All lengths count from
// the start of the run; the decay includes the warm-up.
struct LrSchedule {
  enum class Style { constant, linear, cosine, inverse_sqrt, wsd };
  enum class Anneal { exponential, linear, cosine, minus_sqrt };

  double max_lr = 0;
  double min_lr = 0;
  double init_lr = 0;         // at sample 0 of a warm-up
  double warmup_samples = 0;  // a fraction of the decay need not be whole
  double decay_samples = 1;   // afterwards min_lr, except for constant
  double anneal_samples = 0;  // wsd: length of the fall at the end of the decay
  Style style = Style::linear;
  Anneal anneal = Anneal::exponential;

  // Learning rate of a step that begins after `samples` samples. The trainer counts only samples of
  // steps that were taken: a step skipped for an fp16 overflow does not advance the schedule.
  double operator()(std::int64_t samples) const;
};

// The schedule that a valid configuration describes. Lengths in iterations are multiplied by
// `global_batch_size`.
LrSchedule make_lr_schedule(const OptimizerConfig& optimizer, const TrainConfig& train,
                            std::int64_t global_batch_size);

}  // namespace trireme
