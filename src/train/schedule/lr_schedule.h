// Learning rate as a pure function of samples, or of samples and tokens, with the warm-up and decay
// of Megatron.
#pragma once

#include <cstdint>
#include <functional>

#include "config/config.h"

namespace trireme {

// Lengths are in samples, so that the batch size may change during a run, and count from the start
// of the run; the decay includes the warm-up.
struct LrSchedule {
  double max_lr = 0;
  double min_lr = 0;
  double init_lr = 0;         // at sample 0 of a warm-up
  double warmup_samples = 0;  // a fraction of the decay need not be whole
  double decay_samples = 1;   // min_lr after that, except for constant
  double anneal_samples = 0;  // wsd: length of the fall at the end of the decay
  // Above 0 the decay counts tokens: from decay_begin, the tokens of the warm-up, to here.
  double decay_tokens = 0;
  double decay_begin = 0;
  double warmup_tokens = 0;  // 0: the warm-up counts samples
  DecayStyle style = DecayStyle::linear;
  AnnealStyle anneal = AnnealStyle::exponential;

  // Returns the learning rate of a step that starts after `samples` samples and `tokens` tokens.
  // The trainer counts only samples of applied steps: a step skipped on fp16 overflow does not
  // advance a schedule in samples. Tokens include all that were read, as in Megatron-DeepSpeed.
  double operator()(std::int64_t samples, std::int64_t tokens = 0) const;
};

// Creates the schedule of a valid configuration. Lengths in iterations are multiplied by
// `global_batch_size`. `tokens_of` returns the tokens read after a number of samples; it is called
// only for a decay in tokens after a warm-up in samples.
LrSchedule make_lr_schedule(const OptimizerConfig& optimizer, const TrainConfig& train,
                            std::int64_t global_batch_size,
                            const std::function<std::int64_t(std::int64_t)>& tokens_of = {});

}  // namespace trireme
