// What a trainer loads at the start and saves on the way.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "checkpoint/tidy.h"
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

// What is wrong with a checkpoint, if that is what `body` finds; "" otherwise.
std::string damage_found_by(const std::function<void()>& body) {
  try {
    body();
    return "";
  } catch (const DamagedCheckpoint& damage) {
    return damage.what();
  }
}

std::string first_of(const std::vector<std::string>& reports) {
  const auto found = std::ranges::find_if(reports, [](const auto& text) { return !text.empty(); });
  return found == reports.end() ? "" : *found;
}

}  // namespace

std::vector<std::string> Trainer::Parts::reports_of_ranks(const std::string& report) {
  return rank.size == 1 ? std::vector{report} : checkpoint_ranks(*transport).gather(report);
}

std::string Trainer::Parts::from_rank_0(const std::string& text) {
  return rank.size == 1 ? text : checkpoint_ranks(*transport).broadcast(text);
}

// The checkpoint's own folder; empty where there is none. One rank looks: others may see a shared
// folder later than it does.
fs::path Trainer::Parts::find_on_rank_0(const fs::path& path) {
  std::string folder;
  if (leads()) {
    const FileProgress::Phase phase(files.get(), "is looking for checkpoints");
    if (const auto found = find_checkpoint(path)) {
      folder = fs::absolute(found->folder);
      if (!found->note.empty())
        console.print(fmt::format("note: {}; going on from {}", found->note, folder));
    }
  }
  return from_rank_0(folder);
}

// Of the run's own, or nothing.
fs::path Trainer::Parts::newest_checkpoint() {
  const fs::path folder = fs::path(config.run.dir) / "checkpoints";
  if (leads()) {
    const FileProgress::Phase phase(files.get(), "is removing what a killed save left");
    for (const std::string& line : tidy_checkpoints(folder, files.get())) console.print(line);
  }
  if (!config.checkpoint.fallback) return find_on_rank_0(config.run.dir);
  std::string newest;
  if (leads()) {
    const auto steps = saved_steps(folder);
    try {
      if (const auto found = find_checkpoint(config.run.dir)) newest = fs::absolute(found->folder);
    } catch (const Error& error) {  // a damaged `latest`
      if (steps.empty()) throw;
      console.print(fmt::format("warning: {}", error.what()));
      newest = fs::absolute(folder / step_folder(steps.back()));
    }
  }
  newest = from_rank_0(newest);
  return newest.empty() ? fs::path() : fall_back(newest);
}

// The newest checkpoint from `path` backwards that is sound to the last byte. All ranks share the
// reading.
fs::path Trainer::Parts::fall_back(fs::path path) {
  for (;;) {
    std::string damage;
    try {
      const FileProgress::Phase phase(files.get(), "is checking a checkpoint");
      CheckpointReader(path).verify(&ThreadPool::global(), rank.rank, rank.size, files.get());
    } catch (const std::exception& error) {
      damage = error.what();
    }
    damage = first_of(reports_of_ranks(damage));
    std::string next;
    if (leads() && !damage.empty()) {
      const auto step = step_of(path.filename().string());
      for (const std::int64_t earlier : saved_steps(path.parent_path())) {
        if (!step || earlier < *step) next = path.parent_path() / step_folder(earlier);
      }
      if (next.empty()) fail_input("{}; there is no earlier checkpoint to fall back to", damage);
      console.print(fmt::format("warning: {}; falling back to {}", damage, next));
    }
    next = from_rank_0(next);
    if (next.empty()) return path;
    path = next;
  }
}

// Ends the job where any rank found damage. What else is sound is looked up once, on one rank.
void Trainer::Parts::refuse_damage(const std::string& damage, const fs::path& path) {
  std::string message = first_of(reports_of_ranks(damage));
  if (leads() && !message.empty()) {
    const FileProgress::Phase phase(files.get(), "is looking for a sound checkpoint");
    const fs::path sound = newest_sound_checkpoint(path.parent_path(), path, files.get());
    message += sound.empty() ? "; there is no sound checkpoint next to it"
                             : fmt::format(
                                   "; the newest sound one is '{}': set "
                                   "checkpoint.fallback = true to go on from it",
                                   sound.string());
  }
  message = from_rank_0(message);
  if (!message.empty()) throw DamagedCheckpoint(message);
}

void Trainer::Parts::load_checkpoint(const fs::path& path, bool resume) {
  std::optional<CheckpointReader> opened;
  refuse_damage(damage_found_by([&] { opened.emplace(path); }), path);
  CheckpointReader& reader = *opened;
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
  refuse_damage(damage_found_by([&] {
                  const FileProgress::Phase phase(files.get(), "is reading a checkpoint");
                  reader.read(slices, {true, &ThreadPool::global(), files.get()});
                }),
                path);
  engine.refresh_compute();
  warn_of_another_model(saved.config_toml, reader.folder());
  if (!resume) {
    console.print(fmt::format("weights from {}; counters start at zero", reader.folder().string()));
    return;
  }
  step = saved.step;
  saved_step = saving_step = step;
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
  console.print(fmt::format("resumed from {} at step {}", reader.folder().string(), step));
  const auto order = saved.texts.find("data_order");
  if (order != saved.texts.end() &&
      order->second != fmt::format("{:016x}", train_data->order_key())) {
    console.print(
        "warning: the order of the training data is not the one of the saved run, because the "
        "data, its split, the sequence length, the seed or the number of steps changed; samples "
        "may "
        "repeat");
  }
}

// Weights fit by their shapes alone: what a model computes with them is for the user to keep.
void Trainer::Parts::warn_of_another_model(const std::string& saved, const fs::path& folder) {
  if (saved.empty()) return;
  try {
    const Config before = parse_config(saved, folder.string());
    const std::vector<std::string> changed = changes(before, config, meaning_of_weights);
    if (changed.empty()) return;
    console.print(fmt::format("warning: this is not the model whose weights '{}' holds: {}",
                              folder.string(), fmt::join(changed, "; ")));
  } catch (const Error& error) {
    console.print(
        fmt::format("note: cannot compare with the saved configuration: {}", error.what()));
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
  if (saving_step == step) return;
  SaveOptions options;
  options.folder = fs::path(config.run.dir) / "checkpoints";
  options.program = "trireme " TRIREME_VERSION;
  options.keep = config.checkpoint.keep;
  Ranks ranks = transport ? checkpoint_ranks(*transport) : Ranks{};
  ranks.progress = files.get();
  const Clock::time_point begin = Clock::now();
  finish_save();  // of an earlier step
  if (metrics) log("metrics.jsonl", [&] { metrics->sync(); });
  std::vector<SourceSlice> slices;
  for (int c = 0; c < engine.chunks(); ++c) {
    const auto own = saved_slices(engine.stage(c), engine.optimizer(c),
                                  [&](const Parameter& p) { return engine.speaks_for(c, p.spec); });
    slices.insert(slices.end(), own.begin(), own.end());
  }
  saving_step = step;
  if (!config.checkpoint.async) return note_save(save_checkpoint(options, state(), slices, ranks));
  if (!saver) saver.emplace(options, ranks);
  const double copying = saver->start(state(), slices);
  console.print_now(fmt::format(
      "saving step {} in the background; training waited {:.3f} s, {:.3f} s of it to copy", step,
      seconds_since(begin), copying));
}

void Trainer::Parts::finish_save() {
  if (!saver) return;
  if (const std::optional<SaveReport> report = saver->finish()) note_save(*report);
}

void Trainer::Parts::note_save(const SaveReport& report) {
  saved_step = saving_step;
  if (leads()) write_status("running", "");
  console.print_now(fmt::format("saved {} ({}, {:.2f} s)", report.folder.string(),
                                bytes_to_text(report.bytes), report.seconds));
  if (!report.warning.empty()) console.print_now("warning: " + report.warning);
}

}  // namespace trireme
