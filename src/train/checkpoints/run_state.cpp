// Counters by their names in checkpoints.
#include "train/checkpoints/run_state.h"

namespace trireme {

std::int64_t counter_of(const CheckpointState& saved, const char* name) {
  const auto found = saved.counters.find(name);
  return found == saved.counters.end() ? 0 : found->second;
}

CheckpointState RunState::saved() const {
  CheckpointState s;
  s.step = step;
  s.consumed_samples = consumed_samples;
  s.consumed_tokens = consumed_tokens;
  s.counters = {{"scheduled_samples", scheduled_samples},
                {"skipped_steps", skipped},
                {"loss_scale_good_steps", loss_scale.state().good_steps},
                {"loss_scale_hysteresis", loss_scale.state().hysteresis}};
  s.numbers = {{"loss_scale", loss_scale.scale()}, {"valid_loss", valid_loss}};
  if (save_due) s.counters["save_due"] = 1;
  if (tasks_due) s.counters["tasks_due"] = 1;
  if (guarded >= 0) s.counters["guarded_step"] = guarded;
  if (spikes.active()) s.texts["loss_spikes"] = spikes.json();
  return s;
}

void RunState::restore(const CheckpointState& s) {
  const auto number = [&](const char* name, double otherwise) {
    const auto found = s.numbers.find(name);
    return found == s.numbers.end() ? otherwise : found->second;
  };
  step = s.step;
  consumed_samples = s.consumed_samples;
  consumed_tokens = s.consumed_tokens;
  scheduled_samples = counter_of(s, "scheduled_samples");
  skipped = counter_of(s, "skipped_steps");
  if (loss_scale.is_dynamic()) {
    loss_scale.restore({.scale = number("loss_scale", loss_scale.scale()),
                        .good_steps = counter_of(s, "loss_scale_good_steps"),
                        .hysteresis = counter_of(s, "loss_scale_hysteresis")});
  }
  valid_loss = number("valid_loss", 0);
  save_due = counter_of(s, "save_due") != 0;
  tasks_due = counter_of(s, "tasks_due") != 0;
  guarded = s.counters.contains("guarded_step") ? counter_of(s, "guarded_step") : -1;
  if (const auto text = s.texts.find("loss_spikes"); text != s.texts.end())
    spikes.restore(text->second);
}

}  // namespace trireme
