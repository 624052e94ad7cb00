// Scores the pairs of all rows in order of length, then computes the metrics by row.
#include "generate/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/error.h"

namespace trireme {
namespace {

struct Pair {
  std::vector<std::int32_t> ids;  // of the context and of what follows
  std::int64_t given = 0;         // of the context
  bool shortened = false;
};

std::int32_t opening_id(const Tokenizer& tokenizer, const std::string& where) {
  const SpecialIds& special = tokenizer.special();
  for (const std::int32_t id : {special.bos, special.eod, special.eos})
    if (id >= 0) return id;
  fail_input(
      "{}: the context is empty, and the tokenizer has no token that starts or ends a document",
      where);
}

// The text after what opens a document, as the tokenizer's template has it; a text that spells the
// opening token itself gets no second one.
std::vector<std::int32_t> opened(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids);
  if (!ids.empty() && ids[0] == tokenizer.special().bos) return ids;
  ids.clear();
  tokenizer.encode_prompt(text, ids);
  return ids;
}

Pair make_pair(const Tokenizer& tokenizer, const TaskRow& row, std::size_t choice,
               std::int64_t window, const std::string& where) {
  auto [context, rest] = encode_pair(tokenizer, row.context, row.continuations[choice], where);
  const auto length = static_cast<std::int64_t>(rest.size());
  if (length > window)
    fail_input("{}: a continuation of {} tokens is longer than the window of {}", where, length,
               window);
  // The last token is only predicted.
  const auto most = static_cast<std::size_t>(window + 1 - length);
  Pair pair{.ids = {}, .given = 0, .shortened = context.size() > most};
  if (pair.shortened)
    context.erase(context.begin(), context.end() - static_cast<std::ptrdiff_t>(most));
  pair.given = static_cast<std::int64_t>(context.size());
  pair.ids = std::move(context);
  pair.ids.insert(pair.ids.end(), rest.begin(), rest.end());
  return pair;
}

std::vector<Likelihood> score(TrainedModel& model, const std::vector<Pair>& pairs,
                              const std::string& name, const std::function<void()>& between) {
  // Sequences of one length follow each other, since a stage is built for each.
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return pairs[i].ids.size(); });
  Scorer scorer(model, static_cast<std::int64_t>(pairs[order.back()].ids.size()));
  std::vector<Likelihood> found(pairs.size());
  for (const std::size_t i : order) {
    between();
    found[i] = scorer.likelihood(pairs[i].ids, pairs[i].given, name);
  }
  return found;
}

TaskMetric mean_of(const char* name, const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  TaskMetric metric{.name = name,
                    .value = std::reduce(values.begin(), values.end()) / count,
                    .standard_error = std::nullopt};
  double squares = 0;
  for (const double value : values) squares += (value - metric.value) * (value - metric.value);
  if (values.size() > 1) metric.standard_error = std::sqrt(squares / (count - 1) / count);
  return metric;
}

// Of equal ones the first, as NumPy's argmax.
std::int64_t likeliest(std::span<const Likelihood> found, const TaskRow& row, bool by_length) {
  const auto value = [&](std::size_t i) {
    return by_length ? found[i].log / static_cast<double>(row.lengths[i]) : found[i].log;
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < found.size(); ++i)
    if (value(i) > value(best)) best = i;
  return static_cast<std::int64_t>(best);
}

std::vector<TaskMetric> choice_metrics(const TaskFile& task, std::span<const Likelihood> found) {
  std::vector<double> right, right_by_length;
  for (const TaskRow& row : task.rows) {
    const auto of_row = found.first(row.continuations.size());
    found = found.subspan(of_row.size());
    right.push_back(likeliest(of_row, row, false) == row.answer);
    right_by_length.push_back(likeliest(of_row, row, true) == row.answer);
  }
  return {mean_of("acc", right), mean_of("acc_norm", right_by_length)};
}

std::vector<TaskMetric> cloze_metrics(std::span<const Likelihood> found) {
  std::vector<double> greedy, logs;
  for (const Likelihood& one : found) {
    greedy.push_back(one.greedy);
    logs.push_back(one.log);
  }
  return {mean_of("acc", greedy),
          {.name = "perplexity",
           .value = std::exp(-mean_of("", logs).value),
           .standard_error = std::nullopt}};
}

}  // namespace

std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>> encode_pair(
    const Tokenizer& tokenizer, const std::string& context, const std::string& continuation,
    const std::string& where) {
  const std::size_t end = end_of_text(context);
  if (end == 0) {
    std::vector<std::int32_t> whole;
    tokenizer.encode(context + continuation, whole);
    return {{opening_id(tokenizer, where)}, std::move(whole)};
  }
  std::vector<std::int32_t> given = opened(tokenizer, context.substr(0, end));
  std::vector<std::int32_t> whole = opened(tokenizer, context + continuation);
  whole.erase(whole.begin(),
              whole.begin() + static_cast<std::ptrdiff_t>(std::min(given.size(), whole.size())));
  if (whole.empty())
    fail_input(
        "{}: the tokenizer merges the end of the context and the whole continuation into one "
        "token",
        where);
  return {std::move(given), std::move(whole)};
}

std::string task_name(const std::string& file) {
  return fs::path(file).stem().string();
}

TaskResult evaluate_task(TrainedModel& model, const TaskFile& task, const std::string& name,
                         const std::function<void()>& between) {
  model.require_next_token();
  const ModelConfig& m = model.config().model;
  const std::int64_t window =
      m.position == PositionEncoding::learned ? m.max_positions : m.seq_length;
  TaskResult result{.rows = static_cast<std::int64_t>(task.rows.size())};
  std::vector<Pair> pairs;
  for (std::size_t r = 0; r < task.rows.size(); ++r) {
    const TaskRow& row = task.rows[r];
    const std::string where = fmt::format("{}, row {}", name, r + 1);
    bool shortened = false;
    for (std::size_t c = 0; c < row.continuations.size(); ++c) {
      pairs.push_back(make_pair(model.tokenizer(), row, c, window, where));
      shortened = shortened || pairs.back().shortened;
    }
    result.shortened += shortened;
  }
  const std::vector<Likelihood> found = score(model, pairs, name, between);
  result.metrics =
      task.kind == TaskKind::choice ? choice_metrics(task, found) : cloze_metrics(found);
  return result;
}

}  // namespace trireme
