// Position of a run: contents of a checkpoint besides weights and optimizer states.
#pragma once

#include <cstdint>

#include "checkpoint/writer.h"
#include "optim/loss_scale.h"
#include "train/watch/loss_spikes.h"

namespace trireme {

struct RunState {
  LossScale loss_scale;
  LossSpikes spikes;
  std::int64_t step = 0;  // completed steps
  std::int64_t consumed_samples = 0, consumed_tokens = 0;
  std::int64_t scheduled_samples = 0;  // of steps that were not skipped
  std::int64_t skipped = 0;            // steps without a weight update
  double valid_loss = 0;
  bool save_due = false;      // a scheduled checkpoint, deferred while steps are skipped
  bool tasks_due = false;     // an evaluation of train.eval_tasks that was not completed
  std::int64_t guarded = -1;  // step of the latest corruption check; -1: none

  CheckpointState saved() const;
  // Rejects (exit code 2) a loss scale that no run can have saved.
  void restore(const CheckpointState& saved);
};

// Returns a checkpoint's counter; 0 if it has none of that name.
std::int64_t counter_of(const CheckpointState& saved, const char* name);

}  // namespace trireme
