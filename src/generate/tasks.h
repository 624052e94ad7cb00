// Evaluation tasks by log-likelihood, counted as lm-evaluation-harness counts them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/stop.h"
#include "generate/scorer.h"
#include "generate/task_rows.h"

namespace trireme {

struct TaskMetric {
  std::string name;
  double value = 0;
  std::optional<double> standard_error;  // of a mean over more than one row
};

struct TaskResult {
  std::int64_t rows = 0;
  std::int64_t shortened = 0;  // rows whose context lost its beginning to fit the model
  // choice: "acc" (the likeliest is right) and "acc_norm" (by log-likelihood per character);
  // cloze: "acc" (each token is the likeliest) and "perplexity" (of a continuation).
  std::vector<TaskMetric> metrics;
};

// The ids of a context and of what follows it. Both are encoded as one text, which begins with what
// opens a document, and white space at the end of the context belongs to what follows. An empty
// context is the token that begins or ends documents; without one it is refused (exit code 2),
// naming `where`.
std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>> encode_pair(
    const Tokenizer& tokenizer, const std::string& context, const std::string& continuation,
    const std::string& where);

// Name of a task in metrics: that of its file, without folder and extension.
std::string task_name(const std::string& file);

// Scores all rows. Refuses (exit code 2) a model that does not predict the next token and
// continuations that are longer than its window; `name` begins the message. `between` is called
// before each sequence, and may throw to end the evaluation.
TaskResult evaluate_task(TrainedModel& model, const TaskFile& task, const std::string& name,
                         const std::function<void()>& between = check_stopped);

}  // namespace trireme
