// Position of a run: what a checkpoint stores besides weights and the optimizer's states.
#pragma once

#include <cstdint>

#include "checkpoint/writer.h"
#include "optim/loss_scale.h"
#include "train/loss_spikes.h"

namespace trireme {

struct RunState {
  LossScale loss_scale;
  LossSpikes spikes;
  std::int64_t step = 0;  // done
  std::int64_t consumed_samples = 0, consumed_tokens = 0;
  std::int64_t scheduled_samples = 0;  // of steps that were not skipped
  std::int64_t skipped = 0;            // steps that are not in the weights
  double valid_loss = 0;
  bool save_due = false;      // a checkpoint of the plan, put off since steps are skipped
  std::int64_t guarded = -1;  // step of the newest check for corruption; -1: none

  CheckpointState saved() const;
  // Refuses (exit code 2) a loss scale that no run can have saved.
  void restore(const CheckpointState& saved);
};

// A counter of a checkpoint; 0 where it has none of that name.
std::int64_t counter_of(const CheckpointState& saved, const char* name);

}  // namespace trireme
