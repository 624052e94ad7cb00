// What a trainer loads at the start and saves on the way.
#include <fmt/ranges.h>

#include <cstdint>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "train/ranks.h"
#include "train/slices.h"
#include "train/trainer_parts.h"

namespace trireme {
namespace {

// Keys that say what is computed with weights of the same shapes.
const std::vector<std::string> meaning_of_weights = {"model.num_heads",
                                                     "model.num_kv_heads",
                                                     "model.head_dim",
                                                     "model.position",
                                                     "model.rope_base",
                                                     "model.rope_percent",
                                                     "model.rope_scaling",
                                                     "model.rope_scaling_factor",
                                                     "model.rope_low_freq_factor",
                                                     "model.rope_high_freq_factor",
                                                     "model.rope_original_length",
                                                     "model.norm",
                                                     "model.norm_eps",
                                                     "model.activation",
                                                     "model.norm_placement"};

// Any parameter of this rank.
const std::string& first_parameter(const Engine& engine) {
  return engine.stage().definition().parameters.front().name;
}

}  // namespace

// Of the run's own, or nothing. One rank looks: others may see a shared folder later than it does.
fs::path Trainer::Parts::newest_checkpoint() {
  std::string path;
  if (leads()) {
    if (const auto found = find_checkpoint(config.run.dir)) path = fs::absolute(found->folder);
  }
  return rank.size == 1 ? path : checkpoint_ranks(*transport).broadcast(path);
}

void Trainer::Parts::load_checkpoint(const fs::path& path, bool resume) {
  CheckpointReader reader(path);
  if (rank.size > 1) {
    check_agreement(transport->world(),
                    {{"loaded checkpoint", hash64(to_text(reader.manifest()))}});
  }
  const CheckpointState& saved = reader.state();
  SliceOptions wanted;
  wanted.moments = resume && config.checkpoint.load_optimizer;
  if (wanted.moments && !reader.manifest().find(moment_name(first_parameter(engine), 0))) {
    fail_input(
        "'{}' holds weights without the optimizer's states: set checkpoint.finetune = true to "
        "start from them, or checkpoint.load_optimizer = false to go on without",
        reader.folder().string());
  }
  std::vector<TargetSlice> slices;
  for (int c = 0; c < engine.chunks(); ++c) {
    const auto own = loaded_slices(engine.stage(c), engine.optimizer(c), wanted);
    slices.insert(slices.end(), own.begin(), own.end());
  }
  reader.read(slices, {.convert = true, .pool = &ThreadPool::global()});
  engine.refresh_compute();
  warn_of_another_model(saved.config_toml, reader.folder());
  if (!resume) {
    fmt::print(out, "weights from {}; counters start at zero\n", reader.folder().string());
    return;
  }
  step = saved.step;
  saved_step = step;
  consumed_samples = saved.consumed_samples;
  consumed_tokens = saved.consumed_tokens;
  const auto counter = [&](const char* name) {
    const auto found = saved.counters.find(name);
    return found == saved.counters.end() ? 0 : found->second;
  };
  const auto number = [&](const char* name, double otherwise) {
    const auto found = saved.numbers.find(name);
    return found == saved.numbers.end() ? otherwise : found->second;
  };
  scheduled_samples = counter("scheduled_samples");
  skipped = counter("skipped_steps");
  if (wanted.moments) engine.set_steps(counter("optimizer_steps"));
  LossScaleState scaling;
  scaling.scale = number("loss_scale", loss_scale.scale());
  scaling.good_steps = counter("loss_scale_good_steps");
  scaling.hysteresis = counter("loss_scale_hysteresis");
  if (loss_scale.is_dynamic()) loss_scale.restore(scaling);
  valid_loss = number("valid_loss", 0);
  fmt::print(out, "resumed from {} at step {}\n", reader.folder().string(), step);
  const auto order = saved.texts.find("data_order");
  if (order != saved.texts.end() &&
      order->second != fmt::format("{:016x}", train_data->order_key())) {
    fmt::print(out,
               "warning: the order of the training data is not the one of the saved run, because "
               "the data, its split, the sequence length, the seed or the number of steps "
               "changed; samples may repeat\n");
  }
}

// Weights fit by their shapes alone: what a model computes with them is for the user to keep.
void Trainer::Parts::warn_of_another_model(const std::string& saved, const fs::path& folder) const {
  if (saved.empty()) return;
  try {
    const Config before = parse_config(saved, folder.string());
    const std::vector<std::string> changed = changes(before, config, meaning_of_weights);
    if (changed.empty()) return;
    fmt::print(out, "warning: not the model whose weights '{}' holds: {}\n", folder.string(),
               fmt::join(changed, "; "));
  } catch (const Error& error) {
    fmt::print(out, "note: whether this is the model that was saved cannot be said: {}\n",
               error.what());
  }
}

CheckpointState Trainer::Parts::state() const {
  CheckpointState s;
  s.step = step;
  s.consumed_samples = consumed_samples;
  s.consumed_tokens = consumed_tokens;
  s.counters = {{"scheduled_samples", scheduled_samples},
                {"skipped_steps", skipped},
                {"optimizer_steps", engine.steps()},
                {"loss_scale_good_steps", loss_scale.state().good_steps},
                {"loss_scale_hysteresis", loss_scale.state().hysteresis}};
  s.numbers = {{"loss_scale", loss_scale.scale()}, {"valid_loss", valid_loss}};
  s.texts = {{"data_order", fmt::format("{:016x}", train_data->order_key())}};
  s.config_toml = to_toml(config);
  return s;
}

void Trainer::Parts::save() {
  if (saved_step == step) return;
  SaveOptions options;
  options.folder = fs::path(config.run.dir) / "checkpoints";
  options.program = "trireme " TRIREME_VERSION;
  options.keep = config.checkpoint.keep;
  const Ranks ranks = transport ? checkpoint_ranks(*transport) : Ranks{};
  const Clock::time_point begin = Clock::now();
  finish_save();  // of an earlier step
  if (metrics) metrics->sync();
  std::vector<SourceSlice> slices;
  for (int c = 0; c < engine.chunks(); ++c) {
    const auto own = saved_slices(engine.stage(c), engine.optimizer(c),
                                  [&](const Parameter& p) { return engine.speaks_for(c, p.spec); });
    slices.insert(slices.end(), own.begin(), own.end());
  }
  saved_step = step;
  if (!config.checkpoint.async) return note_save(save_checkpoint(options, state(), slices, ranks));
  if (!saver) saver.emplace(options, ranks);
  const double copying = saver->start(state(), slices);
  progress->note(fmt::format(
      "saving step {} in the background; training waited {:.3f} s, {:.3f} s of it to copy", step,
      seconds_since(begin), copying));
}

void Trainer::Parts::finish_save() {
  if (!saver) return;
  if (const std::optional<SaveReport> report = saver->finish()) note_save(*report);
}

void Trainer::Parts::note_save(const SaveReport& report) {
  progress->note(fmt::format("saved {} ({}, {:.2f} s)", report.folder.string(),
                             bytes_to_text(report.bytes), report.seconds));
  if (!report.warning.empty()) progress->note("warning: " + report.warning);
}

}  // namespace trireme
