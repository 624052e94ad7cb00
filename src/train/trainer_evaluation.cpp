// Evaluation of a model on validation and test data.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/layout.h"
#include "config/batch_sizes.h"
#include "data/dataset_builder.h"
#include "train/run/ranks.h"
#include "train/trainer_parts.h"

namespace trireme {
namespace {

// In timings.jsonl, it also tells that the evaluation of a step is complete.
constexpr std::string_view tasks_seconds = "eval_tasks_seconds";

// Formats "3.2187, perplexity 24.99"; with several losses, "8.5999 (words 7.9065, order 0.6934),
// perplexity of the words 2714.82".
std::string loss_text(const LossSum& sum, std::span<const Loss> losses) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; losses.size() > 1 && i < losses.size(); ++i)
    parts.push_back(fmt::format("{} {:.4f}", losses[i].word, sum.parts[i].mean()));
  return fmt::format("{:.4f}{}, perplexity {}{:.2f}", sum.mean(),
                     parts.empty() ? "" : fmt::format(" ({})", fmt::join(parts, ", ")),
                     parts.empty() ? "" : fmt::format("of the {} ", losses[0].word),
                     std::exp(sum.words().mean()));
}

}  // namespace

std::int64_t Trainer::Parts::evaluation_samples() const {
  return config.train.eval_iters * evaluation_batch_size(config, rank.size);
}

LossSum Trainer::Parts::evaluate_on(Loader& data, std::int64_t from) {
  engine.set_length(config.model.seq_length);
  data.seek(from);
  Batch batch;
  const std::int64_t of_round = config.train.micro_batch_size * engine.mesh().degrees().dp();
  return engine.evaluate(evaluation_samples() / of_round, [&](std::int64_t) {
    batch = data.next();
    return &batch;
  });
}

void Trainer::Parts::evaluate() {
  const TrainConfig& t = config.train;
  // Each evaluation continues where the previous one ended, also after a resume.
  const std::int64_t earlier =
      std::max<std::int64_t>(0, (step + t.eval_interval - 1) / t.eval_interval - 1);
  const std::int64_t from = earlier * evaluation_samples();
  const LossSum sum = evaluate_on(*valid_loader, from);
  valid_loss = sum.mean();
  // With a dynamic loss scale, training steps decide how long to keep trying.
  if (!std::isfinite(valid_loss) && t.check_nan && !loss_scale.is_dynamic()) {
    checkpoints.finish();
    fail(
        "step {}: the validation loss is not finite. The last checkpoint in '{}' is untouched: "
        "decrease optimizer.lr, or check the validation data starting at sample {}",
        step, config.run.dir, from);
  }
  const std::span<const Loss> evaluated = evaluated_losses(config.model);
  std::vector<Metric> line = {{"valid_loss", valid_loss}};
  std::vector<Scalar> scalars;
  for (std::size_t i = 0; i < evaluated.size(); ++i) {
    const double mean = sum.parts[i].mean();
    if (evaluated.size() > 1) line.push_back({evaluated[i].valid_metric, mean});
    scalars.push_back({evaluated[i].valid_scalar, mean});
  }
  folder.write_metrics(step, line);
  folder.write_scalars(step, consumed_samples, scalars);
  console.print_now(fmt::format("step {}: validation loss {}", step, loss_text(sum, evaluated)));
}

bool Trainer::Parts::tasks_are_due() const {
  const TrainConfig& t = config.train;
  if (t.eval_tasks.empty()) return false;
  const std::int64_t every = t.eval_tasks_interval > 0 ? t.eval_tasks_interval : t.eval_interval;
  return step == total_steps || (every > 0 && step % every == 0);
}

fs::path Trainer::Parts::own_checkpoint() const {
  return fs::path(config.run.dir) / "checkpoints" / step_folder(step);
}

// From the checkpoint, so that the numbers are those of `trireme eval --tasks` on any layout. The
// other ranks wait in short turns, however long it takes.
void Trainer::Parts::evaluate_tasks() {
  if (stop && stop->end == TrainSummary::End::interrupted) return;
  checkpoints.finish();
  const Clock::time_point begin = Clock::now();
  std::optional<std::vector<TaskScore>> scores;
  std::exception_ptr failure;
  const Opened found = open_first([&] { scores = options.evaluate_tasks(own_checkpoint()); },
                                  [&](Opened& of_first) { of_first.interrupted = scores ? 0 : 1; },
                                  failure, "evaluation on train.eval_tasks");
  if (found.interrupted) {
    last.stop = true;
    if (!stop) stop = reason_to_stop();
    return;
  }
  tasks_due = false;
  if (!leads()) return;
  if (failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      console.warn_now(
          fmt::format("step {}: no results of train.eval_tasks: {}", step, error.what()));
    }
    return;
  }
  std::vector<Metric> line;
  std::vector<Scalar> scalars;
  std::vector<std::string> texts;
  for (const TaskScore& score : *scores) {
    line.push_back({score.name, score.value});
    scalars.push_back({score.name, score.value});
    texts.push_back(fmt::format("{} {:.4f}", score.name, score.value));
  }
  folder.write_metrics(step, line);
  folder.write_scalars(step, consumed_samples, scalars);
  folder.write_timings(step, std::vector<Metric>{{tasks_seconds, seconds_since(begin)}});
  console.print_now(fmt::format("step {}: {}", step, fmt::join(texts, ", ")));
}

// An evaluation that was deferred together with its checkpoint follows that.
void Trainer::Parts::complete_tasks() {
  if (!tasks_due || (save_due && step < total_steps)) return;
  const auto is_left = [&] {
    return !config.train.eval_tasks.empty() && fs::exists(own_checkpoint()) &&
           !folder.has_timing(step, tasks_seconds);
  };
  tasks_due = !from_rank_0(transport, leads() && is_left() ? "left" : "").empty();
  if (tasks_due) evaluate_tasks();
}

bool Trainer::Parts::has_test() const {
  const TrainConfig& t = config.train;
  return t.eval_iters > 0 && (t.eval_interval > 0 || !config.data.test_path.empty()) &&
         !options.train_data;
}

// The data is opened only here, so that a start does not depend on it. The model is already
// trained, so failing to test it is not an error.
void Trainer::Parts::test() {
  if (!has_test()) return;
  std::string problem;
  const std::shared_ptr<const Dataset> data = open_test_data(problem);
  if (!problem.empty()) {
    console.print_now(fmt::format("note: there is no test loss: {}", problem));
    return;
  }
  if (!data) return;
  Loader test_loader(data, loading());
  const LossSum sum = evaluate_on(test_loader, 0);
  test_loss = sum.mean();
  const std::span<const Loss> evaluated = evaluated_losses(config.model);
  std::vector<std::string> names;
  for (const Loss& loss : evaluated) names.push_back(fmt::format("test_{}", loss.metric));
  std::vector<Metric> line = {{"test_loss", *test_loss}};
  std::vector<Scalar> scalars;
  for (std::size_t i = 0; i < evaluated.size(); ++i) {
    if (evaluated.size() > 1) line.push_back({names[i], sum.parts[i].mean()});
    scalars.push_back({fmt::format("{} test", evaluated[i].scalar), sum.parts[i].mean()});
  }
  folder.write_metrics(step, line);
  folder.write_scalars(step, consumed_samples, scalars);
  console.print_now(fmt::format("step {}: test loss {}", step, loss_text(sum, evaluated)));
}

}  // namespace trireme
