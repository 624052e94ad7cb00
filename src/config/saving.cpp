// Checks checkpoint intervals and folders.
#include "config/saving.h"

#include "base/error.h"

namespace trireme {
namespace {

void check_export(const CheckpointConfig& checkpoint) {
  const std::int64_t every = checkpoint.export_interval;
  if (every == 0) return;
  if (checkpoint.export_format == ExportFormat::none) {
    fail_input("checkpoint.export_interval = {} has no effect without checkpoint.export = \"hf\"",
               every);
  }
  if (checkpoint.interval == 0) {
    fail_input(
        "checkpoint.export_interval = {} requires checkpoint.interval, which is 0 (only the last "
        "step is saved): set it to {} or a divisor of that",
        every, every);
  }
  if (every % checkpoint.interval != 0) {
    fail_input(
        "checkpoint.export_interval = {} must be a multiple of checkpoint.interval = {}, because "
        "only checkpoints are exported",
        every, checkpoint.interval);
  }
}

// A checkpoint that is old enough must still exist, even if saves were late.
void check_spikes(const Config& config) {
  if (config.train.spike_policy != SpikePolicy::back) return;
  const std::int64_t interval = config.checkpoint.interval, keep = config.checkpoint.keep;
  if (interval == 0) {
    fail_input(
        "train.spike_policy = \"back\" resumes from an earlier checkpoint, but checkpoint.interval "
        "is 0 (only the last step is saved): set it, or use \"skip\"");
  }
  if (keep == 0) return;
  fail_input(
      "checkpoint.keep = {} may remove the checkpoint that train.spike_policy = \"back\" resumes "
      "from, because checkpoints saved on interruption count too: set checkpoint.keep = 0, or use "
      "\"skip\"",
      keep);
}

void check_local(const CheckpointConfig& checkpoint) {
  // If a run is killed during an asynchronous save, later node-local checkpoints would have no
  // complete predecessor.
  if (checkpoint.local_interval > 0 && checkpoint.async) {
    fail_input(
        "checkpoint.local_interval = {} conflicts with checkpoint.async = true: set only one of "
        "them",
        checkpoint.local_interval);
  }
  if (checkpoint.local_copies > 0 && checkpoint.local_dir.empty()) {
    fail_input(
        "checkpoint.local_copies = {} needs checkpoint.local_dir and local_interval: it copies "
        "the checkpoints there to other nodes",
        checkpoint.local_copies);
  }
  if (checkpoint.local_dir.empty() == (checkpoint.local_interval == 0)) return;
  if (checkpoint.local_dir.empty()) {
    fail_input(
        "checkpoint.local_interval = {} requires checkpoint.local_dir, a folder on a disk of each "
        "node",
        checkpoint.local_interval);
  }
  fail_input(
      "checkpoint.local_dir = '{}' requires checkpoint.local_interval, the number of iterations "
      "between saves there",
      checkpoint.local_dir);
}

}  // namespace

void check_saving(const Config& config) {
  check_export(config.checkpoint);
  check_spikes(config);
  check_local(config.checkpoint);
}

}  // namespace trireme
