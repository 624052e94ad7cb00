// The keys of [train] and [curriculum].
#include "config/fields/row.h"

namespace trireme {

std::vector<Field> train_fields() {
  return {
      FIELD(train, micro_batch_size, between(1, 1e9), "samples",
            "samples that a data-parallel rank computes at once")
          .also("per_device_train_batch_size train_micro_batch_size_per_gpu local_batch_size"),
      FIELD(
          train, global_batch_size, between(0, 1e9), "samples",
          "samples of an optimizer step, on all ranks; 0: micro_batch_size times the data-parallel "
          "degree"),
      FIELD(train, rampup_batch_size, count(), "samples",
            "first batch size, increment, and samples until global_batch_size is reached"),
      FIELD(train, batch_size_schedule, any(), "",
            "sizes of the global batch as THRESHOLD:SIZE pairs, such as \"0:16 64M:32\": from "
            "this many consumed tokens on (or samples: 1000s); K, M, B, T; excludes "
            "global_batch_size"),
      FIELD(train, iters, count(), "iterations", "length of the run; excludes samples"),
      FIELD(train, samples, count(), "samples", "length of the run; excludes iters")
          .also("train_samples"),
      FIELD(train, tokens, count(), "tokens",
            "the run ends after the step that reaches this, if iters or samples do not end it "
            "earlier; the order of the data does not depend on it; 0: off"),
      FIELD(train, eval_interval, count(), "iterations", "interval between evaluations; 0: never")
          .also("eval_steps"),
      FIELD(train, eval_iters, count(), "iterations", "length of an evaluation"),
      FIELD(train, eval_tasks, any(), "",
            "files of evaluation tasks, as `trireme eval --tasks` reads them, that the model is "
            "evaluated on during training"),
      FIELD(train, eval_tasks_interval, count(), "iterations",
            "interval between evaluations on eval_tasks, and the last iteration has one; 0: "
            "eval_interval"),
      FIELD(train, log_interval, between(1, kCount), "iterations",
            "interval between lines of progress")
          .also("logging_steps log_every log_freq"),
      FIELD(train, exit_interval, count(), "iterations",
            "save and stop at the first multiple; 0: off"),
      FIELD(train, exit_duration_minutes, between(0, 1e9), "minutes",
            "save and stop after this time; 0: off"),
      FIELD(train, timeout_s, above(0), "seconds",
            "longest wait for other ranks; a longer one ends the run"),
      FIELD(train, trace_steps, count(), "iterations",
            "first and last iteration of a Chrome trace; []: none"),
      FIELD(train, check_nan, any(), "",
            "stop when a loss, of validation too, or a gradient is NaN or infinite"),
      FIELD(train, guard_interval, count(), "iterations",
            "interval between checks for silent corruption, which also come before each save: a "
            "micro-batch is computed twice, and states that several ranks hold are compared; 0: "
            "off"),
      FIELD(
          train, hash_interval, count(), "iterations",
          "interval between hashes of all parameters in metrics.jsonl, equal on every layout, with "
          "which `trireme replay` checks the run; 0: off"),
      FIELD(
          train, spike_policy, any(), "",
          "where the loss jumps up or is not finite; skip: without the update of that step; back: "
          "on from an earlier checkpoint with the data that follows"),
      FIELD(train, spike_window, between(8, 1e6), "iterations",
            "number of the last losses that a step's loss is compared with"),
      FIELD(train, spike_sigma, above(0), "standard deviations",
            "height above the median of these from which a loss counts as a spike"),
      FIELD(train, spike_back_steps, between(1, kCount), "iterations",
            "back: from the newest checkpoint that was saved at least so long before the spike"),

      FIELD(curriculum, schedule, any(), "",
            "how the sequence length grows to model.seq_length; samples are cut to it"),
      FIELD(curriculum, min_length, between(0, kManyTokens), "tokens", "length at the start"),
      FIELD(curriculum, iters, count(), "iterations",
            "iteration at which model.seq_length is reached"),
      FIELD(curriculum, length_step, between(1, kManyTokens), "tokens",
            "lengths are multiples of this"),
      FIELD(curriculum, root_degree, between(1, 1000), "",
            "fixed_root: 2 grows with the square root of the iteration"),
  };
}

}  // namespace trireme
