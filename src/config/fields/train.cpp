// The keys of [train] and [curriculum].
#include "config/fields/row.h"

namespace trireme {

std::vector<Field> train_fields() {
  return {
      FIELD(train, micro_batch_size, between(1, 1e9), "samples",
            "number of samples per micro-batch on each data-parallel rank")
          .also("per_device_train_batch_size train_micro_batch_size_per_gpu local_batch_size"),
      FIELD(train, global_batch_size, between(0, 1e9), "samples",
            "number of samples per optimizer step, over all ranks; 0: micro_batch_size times the "
            "data-parallel degree"),
      FIELD(train, rampup_batch_size, count(), "samples",
            "initial batch size, increment, and number of samples until global_batch_size is "
            "reached"),
      FIELD(train, batch_size_schedule, any(), "",
            "sizes of the global batch as THRESHOLD:SIZE pairs, such as \"0:16 64M:32\": each "
            "applies once that many tokens (or samples: 1000s) have been consumed; suffixes K, M, "
            "B, T; conflicts with global_batch_size"),
      FIELD(train, iters, count(), "iterations",
            "length of the run in iterations; conflicts with samples"),
      FIELD(train, samples, count(), "samples",
            "length of the run in samples; conflicts with iters")
          .also("train_samples"),
      FIELD(train, tokens, count(), "tokens",
            "stop after the step that reaches this number of tokens, if iters or samples do not "
            "end the run earlier; does not change the order of the data; 0: off"),
      FIELD(train, eval_interval, count(), "iterations", "interval between evaluations; 0: never")
          .also("eval_steps"),
      FIELD(train, eval_iters, count(), "iterations", "length of an evaluation"),
      FIELD(train, eval_tasks, any(), "",
            "files of evaluation tasks, as `trireme eval --tasks` reads them, that the model is "
            "evaluated on during training"),
      FIELD(train, eval_tasks_interval, count(), "iterations",
            "interval between evaluations on eval_tasks, which also follow the last iteration; 0: "
            "eval_interval"),
      FIELD(train, log_interval, between(1, kCount), "iterations",
            "interval between progress lines")
          .also("logging_steps log_every log_freq"),
      FIELD(train, exit_interval, count(), "iterations",
            "save and stop at the first iteration divisible by this; 0: off"),
      FIELD(train, exit_duration_minutes, between(0, 1e9), "minutes",
            "save and stop after this many minutes; 0: off"),
      FIELD(train, timeout_s, above(0), "seconds",
            "timeout for waiting for other ranks; exceeding it ends the run"),
      FIELD(train, trace_steps, count(), "iterations",
            "first and last iteration to record in a Chrome trace; []: none"),
      FIELD(train, check_nan, any(), "",
            "stop if a training loss, validation loss or gradient is NaN or infinite"),
      FIELD(train, guard_interval, count(), "iterations",
            "interval between checks for silent data corruption, which also run before each save: "
            "a micro-batch is computed twice, and states replicated across ranks are compared; 0: "
            "off"),
      FIELD(train, hash_interval, count(), "iterations",
            "interval between hashes of all parameters in metrics.jsonl, which are equal on every "
            "layout and let `trireme replay` verify the run; 0: off"),
      FIELD(train, spike_policy, any(), "",
            "response to a loss spike or a loss that is not finite; skip: skip the update of that "
            "step; back: continue from an earlier checkpoint with the data that follows"),
      FIELD(train, spike_window, between(8, 1e6), "iterations",
            "number of recent losses that the loss of a step is compared with"),
      FIELD(train, spike_sigma, above(0), "standard deviations",
            "distance above the median of these losses from which a loss counts as a spike"),
      FIELD(train, spike_back_steps, between(1, kCount), "iterations",
            "back: minimum number of steps between the checkpoint to continue from and the spike"),

      FIELD(curriculum, schedule, any(), "",
            "schedule by which the sequence length grows to model.seq_length; samples are "
            "truncated to it"),
      FIELD(curriculum, min_length, between(0, kManyTokens), "tokens", "initial sequence length"),
      FIELD(curriculum, iters, count(), "iterations",
            "iteration at which model.seq_length is reached"),
      FIELD(curriculum, length_step, between(1, kManyTokens), "tokens",
            "lengths are multiples of this"),
      FIELD(curriculum, root_degree, between(1, 1000), "",
            "fixed_root: degree of the root; 2: the length grows with the square root of the "
            "iteration"),
  };
}

}  // namespace trireme
