// Plans and runs a replay in a temporary folder, and compares its metrics with the run's.
#include "compare/replay.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "compare/run_metrics.h"
#include "compare/settings.h"
#include "config/fields.h"
#include "data/configured_tokenizer.h"
#include "formats/conversion.h"
#include "train/run/ranks.h"
#include "train/trainer.h"

namespace trireme {
namespace {

using AllSteps = std::map<std::int64_t, StepMetrics>;

// Temporary folder for the replay's output, created and removed by the first rank.
class OwnFolder {
 public:
  explicit OwnFolder(Transport& transport) : leads_(transport.place().rank == 0) {
    std::string path;
    if (leads_) {
      std::error_code error;
      const fs::path scratch = fs::temp_directory_path(error);
      if (error) fail_input("the folder for temporary files (TMPDIR) does not exist");
      path = (scratch / "trireme-replay-XXXXXX").string();
      if (!::mkdtemp(path.data())) fail("cannot create a folder in '{}'", scratch.string());
    }
    path_ = from_rank_0(&transport, path);
  }
  ~OwnFolder() {
    std::error_code error;
    if (leads_) fs::remove_all(path_, error);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  bool leads_;
  fs::path path_;
};

void refuse_own_keys(const std::vector<std::string>& overrides) {
  for (const std::string& setting : overrides) {
    const std::string key = setting.substr(0, setting.find('='));
    if (key == "run.dir" || key.starts_with("checkpoint.") || key == "train.eval_interval" ||
        key == "offload.path")
      fail_input("{}: a replay sets {} itself, because it writes nothing to the run's folder",
                 setting, key);
  }
}

// Refuses steps that the run has not reached.
void check_steps(const AllSteps& steps, const ReplayRequest& request) {
  if (steps.empty()) fail_input("metrics.jsonl of '{}' contains no steps", request.run.string());
  const std::int64_t done = steps.rbegin()->first;
  if (request.first < 1 || request.first > request.last || request.last > done) {
    fail_input(
        "--steps {}:{}: expected two steps A:B with 1 <= A <= B <= {}, the last step in '{}'",
        request.first, request.last, done, (request.run / "metrics.jsonl").string());
  }
}

// Checks that every step to be computed has a line.
void check_lines(const AllSteps& steps, std::int64_t first, std::int64_t last) {
  for (std::int64_t step = first; step <= last; ++step) {
    const auto found = steps.find(step);
    if (found == steps.end()) fail_input("the run's metrics.jsonl does not contain step {}", step);
    if (!found->second.contains("went_back_to")) continue;
    fail_input(
        "step {} rolled back to the weights of step {} (train.spike_policy), which a replay cannot "
        "reproduce: give steps up to {}, or steps after a later checkpoint",
        step, found->second.at("went_back_to"), step - 1);
  }
}

// Sorted ascending.
std::vector<std::int64_t> steps_of(const fs::path& run) {
  return saved_steps(run / "checkpoints");
}

// The newest checkpoint before the given step; -1: none.
std::int64_t step_before(const std::vector<std::int64_t>& saved, std::int64_t first) {
  std::int64_t newest = -1;
  for (const std::int64_t step : saved)
    if (step < first) newest = step;
  return newest;
}

// The configuration used for the steps: that of the first checkpoint after them.
Config config_of(const ReplayRequest& request, const std::vector<std::int64_t>& saved,
                 const std::vector<std::string>& overrides) {
  const auto after =
      std::ranges::find_if(saved, [&](std::int64_t step) { return step >= request.last; });
  if (after != saved.end())
    return checkpoint_config(request.run / "checkpoints" / step_folder(*after), overrides);
  return load_config((request.run / "config.toml").string(), overrides);
}

// Disables what the run does besides training steps.
void only_steps(Config& config, const fs::path& checkpoint) {
  if (!checkpoint.empty()) {
    config.checkpoint.load = checkpoint.string();
    config.checkpoint.finetune = false;
  }
  const CheckpointConfig plain;
  config.checkpoint.interval = 0;
  config.checkpoint.local_interval = 0;
  config.checkpoint.local_dir.clear();
  config.checkpoint.local_copies = 0;
  config.checkpoint.fallback = false;
  config.checkpoint.async = false;
  config.checkpoint.export_format = plain.export_format;
  config.train.eval_interval = 0;
  config.train.eval_tasks.clear();
  config.train.eval_tasks_interval = 0;
  config.train.exit_interval = 0;
  config.train.exit_duration_minutes = 0;
  config.train.trace_steps.clear();
  config.train.guard_interval = 0;
  config.log.tensorboard = false;
}

// Keeps a global batch size that was derived from the run's layout.
void keep_batch(Config& config, const AllSteps& steps, std::int64_t first) {
  const TrainConfig& t = config.train;
  if (t.global_batch_size > 0 || !t.rampup_batch_size.empty() || !t.batch_size_schedule.empty())
    return;
  const auto samples = [&](std::int64_t step) -> std::optional<std::int64_t> {
    if (step == 0) return 0;
    const auto found = steps.find(step);
    if (found == steps.end() || !found->second.contains("consumed_samples")) return std::nullopt;
    return std::stoll(found->second.at("consumed_samples"));
  };
  // A run that started from another run's checkpoint has no line for the preceding step.
  for (const std::int64_t step : {first, first + 1}) {
    const auto before = samples(step - 1), after = samples(step);
    if (!before || !after) continue;
    config.train.global_batch_size = *after - *before;
    return;
  }
  fail_input(
      "the run's global batch size depended on its layout, and its metrics.jsonl does not record "
      "it: add train.global_batch_size=N");
}

std::vector<std::string> keys_beside_layout(const std::vector<std::string>& overrides) {
  std::vector<std::string> keys;
  for (const std::string& setting : overrides) {
    const std::string key = setting.substr(0, setting.find('='));
    if (!is_of_layout(key)) keys.push_back(key);
  }
  return keys;
}

bool is_other_layout(const Config& run, const Config& replay) {
  Config a = run, b = replay;
  return std::ranges::any_of(all_fields(), [&](const Field& field) {
    return field.section == "parallel" && toml_value(field.slot(a)) != toml_value(field.slot(b));
  });
}

// Compares the values present in both lines.
std::vector<ReplayedValue> differences(std::int64_t step, const StepMetrics& in_run,
                                       const StepMetrics& here) {
  std::vector<ReplayedValue> found;
  for (const auto& [name, value] : in_run) {
    const auto own = here.find(name);
    if (own != here.end() && own->second != value)
      found.push_back({step, name, value, own->second});
  }
  return found;
}

ReplayReport compare_lines(const AllSteps& in_run, const AllSteps& here) {
  ReplayReport report;
  for (const auto& [step, values] : here) {
    const StepMetrics& of_run = in_run.at(step);
    if (report.steps++ == 0) report.from = step;
    report.hashes += values.contains("parameter_hash") && of_run.contains("parameter_hash") ? 1 : 0;
    auto found = differences(step, of_run, values);
    if (found.empty()) continue;
    if (report.differing_steps++ == 0) report.first_differing = std::move(found);
  }
  return report;
}

}  // namespace

ReplayPlan plan_replay(const ReplayRequest& request) {
  const fs::path metrics = request.run / "metrics.jsonl";
  if (!fs::exists(metrics))
    fail_input("'{}' has no metrics.jsonl: expected the folder of a run", request.run.string());
  refuse_own_keys(request.overrides);
  const AllSteps steps = read_step_metrics(metrics);
  check_steps(steps, request);
  const std::vector<std::int64_t> saved = steps_of(request.run);
  ReplayPlan plan{.metrics = metrics, .first = request.first, .last = request.last};
  const std::int64_t before = step_before(saved, request.first);
  if (before >= 0) plan.checkpoint = request.run / "checkpoints" / step_folder(before);
  // Without an earlier checkpoint, steps are computed from the run's beginning.
  const std::int64_t from = before >= 0 ? before + 1 : steps.begin()->first;
  check_lines(steps, from, request.last);
  const Config of_run = config_of(request, saved, {});
  plan.from = from;
  plan.config = config_of(request, saved, request.overrides);
  if (!plan.config.data.tokenizer.empty())
    locate_tokenizer(plan.config, of_run, fs::absolute(request.run));
  plan.other_layout = is_other_layout(of_run, plan.config);
  plan.other_micro_batch = of_run.train.micro_batch_size != plan.config.train.micro_batch_size;
  plan.other_tensor_ranks = of_run.parallel.tp != plan.config.parallel.tp;
  plan.changed = changes(of_run, plan.config, keys_beside_layout(request.overrides));
  keep_batch(plan.config, steps, from);
  only_steps(plan.config, plan.checkpoint);
  return plan;
}

ReplayReport replay(const ReplayPlan& plan, std::FILE* out, Transport& transport) {
  const OwnFolder folder(transport);
  Config config = plan.config;
  config.run.dir = folder.path().string();
  if (!config.offload.path.empty()) config.offload.path = config.run.dir;
  {
    Trainer trainer(config, out, {}, &transport);
    trainer.begin();
    if (trainer.step() != plan.from - 1) {
      fail_input(
          "the run started after step {}, but the checkpoint that it started from ('{}') is now at "
          "step {}: give steps after one of the run's own checkpoints",
          plan.from - 1, config.checkpoint.load, trainer.step());
    }
    while (trainer.step() < plan.last) {
      trainer.train_step();
      if (const std::string why = trainer.reason_to_stop(); !why.empty()) {
        throw Error(ExitCode::interrupted,
                    fmt::format("the replay was stopped after step {}: {}", trainer.step(), why));
      }
    }
    trainer.finish();
  }
  if (transport.place().rank != 0) return {};
  return compare_lines(read_step_metrics(plan.metrics),
                       read_step_metrics(folder.path() / "metrics.jsonl"));
}

}  // namespace trireme
