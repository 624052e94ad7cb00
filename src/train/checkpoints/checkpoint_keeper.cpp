// Finds, validates, loads and saves checkpoints.
#include "train/checkpoints/checkpoint_keeper.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "checkpoint/tidy.h"
#include "config/fields.h"
#include "config/optimizers.h"
#include "train/checkpoints/left_out_weights.h"
#include "train/run/ranks.h"

namespace trireme {
namespace {

// Any parameter of this rank.
const std::string& first_parameter(const Engine& engine) {
  return engine.stage().definition().parameters.front().name;
}

// Runs `body` and returns a description of the checkpoint damage that it finds; "" if none.
std::string damage_found_by(const std::function<void()>& body) {
  try {
    body();
    return "";
  } catch (const DamagedCheckpoint& damage) {
    return damage.what();
  }
}

// Lists the files of a checkpoint, for display only: unreadable ones are skipped.
void list_files(const fs::path& folder, Console& console) {
  std::map<std::string, std::uintmax_t> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code unknown;
    const std::uintmax_t bytes = at->file_size(unknown);
    if (!unknown) files[at->path().filename().string()] = bytes;
  }
  for (const auto& [name, bytes] : files) {
    console.debug(fmt::format("{}: {} in {}", folder.filename().string(),
                              bytes_to_text(static_cast<std::int64_t>(bytes)), name));
  }
}

std::string first_of(const std::vector<std::string>& reports) {
  const auto found = std::ranges::find_if(reports, [](const auto& text) { return !text.empty(); });
  return found == reports.end() ? "" : *found;
}

}  // namespace

// Returns the checkpoint's own folder, or empty. Only one rank looks, because others may see a
// shared folder with a delay.
fs::path CheckpointKeeper::find_on_rank_0(const fs::path& path) {
  std::string folder;
  if (leads()) {
    const FileProgress::Phase phase(job_.files, "is looking for checkpoints");
    if (const auto found = find_checkpoint(path)) {
      folder = fs::absolute(found->folder);
      if (!found->note.empty())
        job_.console.print(fmt::format("note: {}; resuming from {}", found->note, folder));
    }
  }
  return from_rank_0(job_.transport, folder);
}

// Returns the newest checkpoint of the run itself, or empty.
fs::path CheckpointKeeper::newest_checkpoint() {
  const fs::path folder = fs::path(job_.config.run.dir) / "checkpoints";
  if (leads()) {
    const FileProgress::Phase phase(job_.files, "is removing what a killed save left");
    for (const std::string& line : tidy_checkpoints(folder, job_.files)) job_.console.print(line);
  }
  const auto repaired = [&](const fs::path& found) {
    const bool own = leads() && found.parent_path() == fs::absolute(folder);
    const std::string line = own ? repair_latest(found) : "";
    if (!line.empty()) job_.console.print(line);
    return found;
  };
  if (!job_.config.checkpoint.fallback) return repaired(find_on_rank_0(job_.config.run.dir));
  std::string newest;
  if (leads()) {
    const auto steps = saved_steps(folder);
    try {
      if (const auto found = find_checkpoint(job_.config.run.dir))
        newest = fs::absolute(found->folder);
    } catch (const Error& error) {  // a damaged `latest`
      if (steps.empty()) throw;
      job_.console.warn(error.what());
      newest = fs::absolute(folder / step_folder(steps.back()));
    }
  }
  newest = from_rank_0(job_.transport, newest);
  if (newest.empty()) return {};
  fs::path sound = fall_back(newest);
  return sound == newest ? repaired(sound) : sound;
}

// Searches backward from `path` for the newest checkpoint that is fully intact. All ranks share the
// work of reading.
fs::path CheckpointKeeper::fall_back(fs::path path) {
  for (;;) {
    std::string damage;
    const auto note = [&](const std::function<void()>& body) {
      try {
        body();
      } catch (const std::exception& error) {
        damage = error.what();
      }
    };
    std::optional<CheckpointReader> reader;
    if (leads()) note([&] { reader.emplace(path); });
    hand_on(reader, path);
    if (reader) {
      const FileProgress::Phase phase(job_.files, "is checking a checkpoint");
      note([&] { reader->verify(&ThreadPool::global(), rank(), ranks(), job_.files); });
    }
    damage = first_of(reports_of_ranks(job_.transport, damage));
    std::string next;
    if (leads() && !damage.empty()) {
      const auto step = step_of(path.filename().string());
      for (const std::int64_t earlier : saved_steps(path.parent_path())) {
        if (!step || earlier < *step) next = path.parent_path() / step_folder(earlier);
      }
      if (next.empty()) fail_input("{}; there is no earlier checkpoint to fall back to", damage);
      job_.console.warn(fmt::format("{}; falling back to {}", damage, next));
    }
    next = from_rank_0(job_.transport, next);
    if (next.empty()) return path;
    path = next;
  }
}

// Ends the job if any rank found damage. One rank looks for other checkpoints that are intact.
void CheckpointKeeper::refuse_damage(const std::string& damage, const fs::path& path) {
  std::string message = first_of(reports_of_ranks(job_.transport, damage));
  if (leads() && !message.empty()) {
    const FileProgress::Phase phase(job_.files, "is looking for a sound checkpoint");
    const fs::path sound = newest_sound_checkpoint(path.parent_path(), path, job_.files);
    message += sound.empty() ? "; there is no sound checkpoint next to it"
                             : fmt::format(
                                   "; the newest sound one is '{}': set checkpoint.fallback = true "
                                   "to resume from it",
                                   sound.string());
  }
  message = from_rank_0(job_.transport, message);
  if (!message.empty()) throw DamagedCheckpoint(message);
}

// Broadcasts what rank 0 has opened, so that only one rank reads the manifest.
void CheckpointKeeper::hand_on(std::optional<CheckpointReader>& reader, const fs::path& folder) {
  const std::string text =
      from_rank_0(job_.transport, reader && ranks() > 1 ? to_text(reader->manifest()) : "");
  if (!reader && !text.empty()) reader.emplace(folder, text);
}

// Opens the same checkpoint on all ranks.
void CheckpointKeeper::open(std::optional<CheckpointReader>& reader, const fs::path& path) {
  std::string damage;
  if (leads()) damage = damage_found_by([&] { reader.emplace(path); });
  refuse_damage(damage, path);
  hand_on(reader, path);
}

void CheckpointKeeper::read_states(CheckpointReader& reader, const SliceOptions& wanted) {
  std::vector<TargetSlice> slices;
  for (int c = 0; c < job_.engine.chunks(); ++c) {
    const auto own = loaded_slices(job_.engine.stage(c), job_.engine.optimizer(c), wanted);
    slices.insert(slices.end(), own.begin(), own.end());
  }
  refuse_damage(damage_found_by([&] {
                  const FileProgress::Phase phase(job_.files, "is reading a checkpoint");
                  reader.read(slices, {true, &ThreadPool::global(), job_.files});
                }),
                reader.folder());
  job_.engine.refresh_compute();
}

void CheckpointKeeper::load_from(const fs::path& path, bool resume, RunState& run) {
  std::optional<CheckpointReader> opened;
  open(opened, path);
  CheckpointReader& reader = *opened;
  const CheckpointState& saved = reader.state();
  SliceOptions wanted;
  wanted.moments = resume && job_.config.checkpoint.load_optimizer;
  if (wanted.moments && !reader.manifest().find(moment_name(first_parameter(job_.engine), 0))) {
    fail_input(
        "'{}' holds weights without the optimizer's states: set checkpoint.finetune = true to "
        "start from them, or checkpoint.load_optimizer = false to continue without",
        reader.folder().string());
  }
  if (wanted.moments) refuse_states_of_another_optimizer(saved.config_toml, reader.folder());
  refuse_counts_that_were_not_kept(reader);
  leave_no_weights_out(reader, resume);
  read_states(reader, wanted);
  warn_of_another_model(saved.config_toml, reader.folder());
  if (!resume) {
    job_.console.print(
        fmt::format("weights from {}; counters start at zero", reader.folder().string()));
    return;
  }
  if (wanted.moments) job_.engine.set_steps(counter_of(saved, "optimizer_steps"));
  resume_from(saved, reader.folder().string(), run);
}

void CheckpointKeeper::resume_from(const CheckpointState& saved, const std::string& from,
                                   RunState& run) {
  run.restore(saved);
  saved_step_ = saving_step_ = run.step;
  job_.console.print(fmt::format("resumed from {} at step {}", from, run.step));
  note_other_numerics(saved.config_toml, from);
  if (const auto tuning = saved.texts.find("tuning"); tuning != saved.texts.end())
    loaded_tuning_ = tuning->second;
  const auto order = saved.texts.find("data_order");
  if (order != saved.texts.end() && order->second != job_.data_order()) {
    job_.console.warn(
        "the order of the training data is not the one of the saved run, because the data, its "
        "split, the sequence length, the seed or the number of steps changed; samples may repeat");
  }
}

// The bits of a run are those of its numerics from the first step on.
void CheckpointKeeper::note_other_numerics(const std::string& saved, const std::string& from) {
  if (saved.empty()) return;
  Numerics before{};
  try {
    before = parse_config(saved, from).parallel.numerics;
  } catch (const Error&) {
    return;  // warn_of_another_model() reports it
  }
  const Numerics now = job_.config.parallel.numerics;
  if (before == now) return;
  job_.console.print(
      fmt::format("note: the run was saved with parallel.numerics = \"{}\" and continues with "
                  "\"{}\": its bits are not those of a run with either from the first step on",
                  before, now));
}

// Rejects moments of another optimizer with matching shapes: its momentum would be taken for a
// first moment with a different scale.
void CheckpointKeeper::refuse_states_of_another_optimizer(const std::string& saved,
                                                          const fs::path& folder) {
  OptimizerKind before{};
  try {
    before = parse_config(saved, folder.string()).optimizer.name;
  } catch (const Error&) {
    return;  // warn_of_another_model() reports it
  }
  const OptimizerKind now = job_.config.optimizer.name;
  if (before == now || (is_adam(before) && is_adam(now))) return;
  fail_input(
      "'{}' holds the states of optimizer.name = \"{}\", and this run has \"{}\": set "
      "checkpoint.load_optimizer = false to resume from its weights with new states, or "
      "optimizer.name = \"{}\"",
      folder.string(), before, now, before);
}

// Rejects missing counts of experts: routers have these tensors from a run's first step or never.
void CheckpointKeeper::refuse_counts_that_were_not_kept(const CheckpointReader& reader) {
  const auto has = [&](const std::string& ending) {
    return std::ranges::any_of(reader.manifest().tensors, [&](const StoredTensor& tensor) {
      return tensor.name.ends_with(ending);
    });
  };
  const ExpertConfig& now = job_.config.model.moe;
  for (const auto& [counts, setting, name] :
       {std::tuple{now.keeps_load(), "moe.aux_loss = \"global\"", "load"},
        {now.num_experts > 0 && now.expert_bias, "moe.expert_bias = true", "bias"}}) {
    if (!counts || !has("mlp.router.weight") || has(std::string("mlp.router.") + name)) continue;
    fail_input(
        "'{}' was saved without {}, which needs what it counts from a run's first step on: leave "
        "that setting as it was, or begin a new run with it",
        reader.folder().string(), setting);
  }
}

// A run that continues must have all weights; one that starts from weights is warned.
void CheckpointKeeper::leave_no_weights_out(const CheckpointReader& reader, bool resume) {
  const std::string left_out = left_out_weights(reader, job_.config);
  if (left_out.empty()) return;
  if (!resume) return job_.console.warn(left_out);
  fail_input(
      "{}; resume with the model that was saved, or set checkpoint.finetune = true and another "
      "run.dir to start from the weights that are left",
      left_out);
}

// Weights of another model with matching shapes are loaded with a warning only: the user is
// responsible for the result.
void CheckpointKeeper::warn_of_another_model(const std::string& saved, const fs::path& folder) {
  if (saved.empty()) return;
  try {
    const Config before = parse_config(saved, folder.string());
    const std::vector<std::string> changed = changes(before, job_.config, weight_keys());
    if (changed.empty()) return;
    job_.console.warn(fmt::format("this is not the model whose weights '{}' holds: {}",
                                  folder.string(), fmt::join(changed, "; ")));
  } catch (const Error& error) {
    job_.console.print(
        fmt::format("note: cannot compare with the saved configuration: {}", error.what()));
  }
}

bool CheckpointKeeper::load(RunState& run) {
  if (!local_.active()) return load_newest(run);
  local_.find_nodes();
  if (const std::string why = local_.why_no_copies(); !why.empty()) job_.console.warn(why);
  const bool loaded = load_newest(run);
  local_.forget_after(run.step);
  return loaded;
}

bool CheckpointKeeper::load_newest(RunState& run) {
  const std::string& load = job_.config.checkpoint.load;
  const fs::path newest = newest_checkpoint();
  if (!newest.empty()) shared_step_ = step_of(newest.filename().string()).value_or(-1);
  if (load_local(shared_step_, run)) return true;
  if (!newest.empty()) {
    load_from(newest, true, run);
  } else if (!load.empty()) {
    const fs::path path = find_on_rank_0(load);
    if (path.empty()) fail_input("checkpoint.load = '{}' contains no checkpoint", load);
    load_from(path, !job_.config.checkpoint.finetune, run);
  } else {
    return false;
  }
  return true;
}

// Loads the newest local checkpoint of the run itself if it is newer than `shared`.
bool CheckpointKeeper::load_local(std::int64_t shared, RunState& run) {
  if (!local_.active() || !job_.config.checkpoint.load_optimizer) return false;
  const std::optional<std::int64_t> step = local_.find(shared);
  for (const std::string& why : local_.unusable())
    job_.console.warn(fmt::format("a local checkpoint is not usable: {}", why));
  if (!step && shared < 0) return false;
  if (!step) {
    job_.console.print(
        "note: no checkpoint in checkpoint.local_dir is newer than those in the run's folder, whole "
        "for all ranks, and of this layout");
    return false;
  }
  const CheckpointState saved = local_.load(*step);
  job_.engine.set_steps(counter_of(saved, "optimizer_steps"));
  resume_from(saved, fmt::format("the local checkpoints in '{}'", job_.config.checkpoint.local_dir),
              run);
  // The newest shared checkpoint is still the one in the run's folder.
  saved_step_ = saving_step_ = shared;
  locally_saved_step_ = *step;
  warn_of_another_model(saved.config_toml, job_.config.checkpoint.local_dir);
  return true;
}

bool CheckpointKeeper::go_back(std::int64_t step, RunState& run) {
  finish();  // it may be the one being written
  fs::path path = fs::path(job_.config.run.dir) / "checkpoints" / step_folder(step);
  std::error_code error;
  path = from_rank_0(job_.transport,
                     leads() && fs::exists(path / manifest_file, error) ? path.string() : "");
  if (path.empty()) return false;
  std::optional<CheckpointReader> reader;
  open(reader, path);
  read_states(*reader, {});
  run.restore(reader->state());
  job_.engine.set_steps(counter_of(reader->state(), "optimizer_steps"));
  return true;
}

void CheckpointKeeper::save(const RunState& run) {
  if (saving_step_ == run.step) return;
  SaveOptions options;
  options.folder = fs::path(job_.config.run.dir) / "checkpoints";
  options.program = "trireme " TRIREME_VERSION;
  options.keep = job_.config.checkpoint.keep;
  Ranks ranks = job_.transport ? checkpoint_ranks(*job_.transport) : Ranks{};
  ranks.progress = job_.files;
  const auto begin = std::chrono::steady_clock::now();
  finish();  // saves of an earlier step
  Engine& engine = job_.engine;
  std::vector<SourceSlice> slices;
  for (int c = 0; c < engine.chunks(); ++c) {
    const auto own = saved_slices(engine.stage(c), engine.optimizer(c),
                                  [&](const Parameter& p) { return engine.owns(c, p.spec); });
    slices.insert(slices.end(), own.begin(), own.end());
  }
  const CheckpointState state = state_of(run);
  saving_step_ = shared_step_ = run.step;
  if (!job_.config.checkpoint.async)
    return note_save(save_checkpoint(options, state, slices, ranks));
  if (!saver_) saver_.emplace(options, ranks);
  const double copying = saver_->start(state, slices);
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  waited_ = waited.count();
  job_.console.print_now(fmt::format(
      "saving step {} in the background; training waited {:.3f} s, {:.3f} s of it to copy",
      run.step, waited_, copying));
}

CheckpointState CheckpointKeeper::state_of(const RunState& run) const {
  CheckpointState state = run.saved();
  state.counters["optimizer_steps"] = job_.engine.steps();
  state.texts["data_order"] = job_.data_order();
  if (const std::string tuning = job_.tuning(); !tuning.empty()) state.texts["tuning"] = tuning;
  state.config_toml = to_toml(job_.config);
  return state;
}

void CheckpointKeeper::save_locally(const RunState& run) {
  const auto begin = std::chrono::steady_clock::now();
  const bool waits = finish_copying();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  if (waits && waited.count() > 1 && !std::exchange(noted_wait_, true)) {
    job_.console.warn_now(fmt::format(
        "training waited {:.1f} s for the copy of the local checkpoint before this one: raise "
        "checkpoint.local_interval = {}",
        waited.count(), job_.config.checkpoint.local_interval));
  }
  const std::string failure = local_.save(state_of(run), shared_step_);
  const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - begin;
  if (failure.empty()) {
    locally_saved_step_ = run.step;
    job_.console.debug(fmt::format("saved step {} locally ({:.2f} s)", run.step, duration.count()));
  } else {
    job_.console.warn_now(fmt::format("no local checkpoint of step {}: {}", run.step, failure));
  }
}

// Returns whether there was a copy to wait for.
bool CheckpointKeeper::finish_copying() {
  const std::optional<CopyReport> report = local_.finish_copying();
  if (!report) return false;
  if (report->failure.empty()) {
    locally_copied_step_ = report->step;
    job_.console.debug(
        fmt::format("copied the local checkpoint of step {} to other nodes ({:.2f} s)",
                    report->step, report->seconds));
  } else {
    job_.console.warn_now(
        fmt::format("the local checkpoint of step {} has no copies on other nodes: {}",
                    report->step, report->failure));
  }
  return true;
}

void CheckpointKeeper::settle() {
  finish();
  finish_copying();
}

void CheckpointKeeper::finish() {
  if (!saver_) return;
  if (const std::optional<SaveReport> report = saver_->finish()) note_save(*report);
}

void CheckpointKeeper::note_save(const SaveReport& report) {
  saved_step_ = saving_step_;
  job_.saved(job_.config.checkpoint.async ? waited_ : report.seconds, report.seconds);
  job_.console.print_now(fmt::format("saved {} ({}, {:.2f} s)", report.folder.string(),
                                     bytes_to_text(report.bytes), report.seconds));
  if (!report.warning.empty()) job_.console.warn_now(report.warning);
  if (leads() && job_.console.shows(LogLevel::debug)) list_files(report.folder, job_.console);
}

}  // namespace trireme
