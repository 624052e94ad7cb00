// Evaluates files of tasks: for `trireme eval --tasks`, as text or JSON, and during training.
#include "cli/evaluate/eval_tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "base/stop.h"
#include "generate/tasks.h"
#include "train/watch/interrupt.h"

namespace trireme::cli {
namespace {

nlohmann::json json_of(const std::string& file, const TaskFile& task, const TaskResult& result) {
  nlohmann::json json = {{"file", file},
                         {"shape", task.shape},
                         {"rows", result.rows},
                         {"shortened", result.shortened}};
  for (const TaskMetric& metric : result.metrics) {
    json[metric.name] = metric.value;
    if (metric.standard_error) json[metric.name + "_stderr"] = *metric.standard_error;
  }
  return json;
}

std::string text_of(const std::string& file, const TaskResult& result) {
  std::vector<std::string> parts;
  for (const TaskMetric& metric : result.metrics) {
    parts.push_back(metric.standard_error ? fmt::format("{} {:.4f} ± {:.4f}", metric.name,
                                                        metric.value, *metric.standard_error)
                                          : fmt::format("{} {:.4f}", metric.name, metric.value));
  }
  return fmt::format("{}: {}  ({})", file, fmt::join(parts, "  "), counted(result.rows, "row"));
}

// Ends an evaluation during training.
struct SignalToEnd {};

void end_on_signal() {
  if (InterruptGuard::pending() != 0) throw SignalToEnd{};
}

}  // namespace

std::string task_files_help() {
  return fmt::format("The rows of a task file have one of these sets of keys: {}.",
                     fmt::join(task_shapes(), "; "));
}

std::function<std::optional<std::vector<TaskScore>>(const fs::path& checkpoint)> task_evaluation(
    const std::vector<std::string>& files) {
  std::map<std::string, TaskFile> tasks;
  for (const std::string& file : files) {
    if (!tasks.emplace(task_name(file), read_task_file(file)).second)
      fail_input(
          "train.eval_tasks names two files '{}': rename one, since metrics have these names",
          task_name(file));
  }
  return [tasks = std::move(tasks)](
             const fs::path& checkpoint) -> std::optional<std::vector<TaskScore>> {
    TrainedModel model(checkpoint);
    std::vector<TaskScore> scores;
    try {
      for (const auto& [name, task] : tasks) {
        for (const TaskMetric& metric : evaluate_task(model, task, name, end_on_signal).metrics)
          scores.push_back({fmt::format("{}_{}", name, metric.name), metric.value});
      }
    } catch (const SignalToEnd&) {
      return std::nullopt;
    }
    return scores;
  };
}

void evaluate_task_files(TrainedModel& model, const std::vector<std::string>& files, bool json) {
  std::vector<TaskFile> tasks;
  for (const std::string& file : files) tasks.push_back(read_task_file(file));
  nlohmann::json all = nlohmann::json::array();
  stoppable([&] {
    for (std::size_t i = 0; i < files.size(); ++i) {
      const TaskResult result = evaluate_task(model, tasks[i], files[i]);
      if (result.shortened > 0)
        fmt::print(
            stderr,
            "note: {}: the context of {} exceeds the model's window, so its beginning was cut "
            "off\n",
            files[i], counted(result.shortened, "row"));
      if (json) {
        all.push_back(json_of(files[i], tasks[i], result));
      } else {
        fmt::print("{}\n", text_of(files[i], result));
      }
    }
  });
  if (json)
    fmt::print("{}\n", nlohmann::json({{"tasks", all}, {"step", model.step()}})
                           .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace trireme::cli
