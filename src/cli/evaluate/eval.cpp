// `trireme eval`: loss, perplexity and bits per byte of a trained model on its run's data, on text
// or on indexed data; accuracies of tasks.
#include "generate/evaluation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "cli/commands.h"
#include "cli/evaluate/eval_split.h"
#include "cli/evaluate/eval_tasks.h"
#include "cli/evaluate/text_stream.h"
#include "data/indexed_dataset.h"

namespace trireme::cli {
namespace {

struct EvalArguments {
  std::string model, text, data;
  std::vector<std::string> tasks;
  std::optional<Split> split;
  std::int64_t samples = 0;  // of a split; 0: as many as an evaluation of the run
  DocumentForm documents = DocumentForm::file;
  EvaluationOptions options;
  std::int64_t limit = 0;
  bool json = false;
  std::vector<std::string> overrides;
};

// Without a tokenizer the text size is unknown, and the first token is not scored.
TextStream read_indexed(const EvalArguments& a, TrainedModel& model) {
  const IndexedDataset data(a.data);
  const Tokenizer* tokenizer = model.config().data.tokenizer.empty() ? nullptr : &model.tokenizer();
  TextStream stream;
  if (tokenizer) stream.ids = before_first_document(*tokenizer);
  for (std::int64_t s = 0; s < data.sequences(); ++s) {
    const std::size_t at = stream.ids.size();
    stream.ids.resize(at + static_cast<std::size_t>(data.length(s)));
    data.read(s, 0, data.length(s), stream.ids.data() + at);
    data.check_ids(s, 0, data.length(s), stream.ids.data() + at, model.config().model.vocab_size);
  }
  if (tokenizer)
    stream.bytes = static_cast<std::int64_t>(tokenizer->decode(stream.ids, true).size());
  return stream;
}

void print_json(const Evaluation& e, std::int64_t step) {
  nlohmann::json json = {
      {"loss", e.loss()}, {"perplexity", e.perplexity()}, {"tokens", e.tokens}, {"step", step}};
  json["bytes"] = e.bytes > 0 ? nlohmann::json(e.bytes) : nullptr;
  json["bits_per_byte"] = e.bytes > 0 ? nlohmann::json(e.bits_per_byte()) : nullptr;
  fmt::print("{}\n", json.dump());
}

void print_text(const Evaluation& e, std::int64_t step) {
  fmt::print("loss {:.4f}  perplexity {:.2f}  ", e.loss(), e.perplexity());
  if (e.bytes > 0) fmt::print("bits per byte {:.4f}  ", e.bits_per_byte());
  fmt::print("({}, ", counted(e.tokens, "token"));
  if (e.bytes > 0) fmt::print("{}, ", counted(e.bytes, "byte"));
  fmt::print("step {})\n", step);
}

void print_split(const EvalArguments& a, TrainedModel& model, Split split) {
  const SplitLoss of_split = evaluate_split(model, split, a.samples);
  const std::span<const Loss> losses = losses_of(model.config().model);
  const LossSum& sum = of_split.sum;
  const double perplexity = std::exp(sum.words().mean());
  const auto tokens = static_cast<std::int64_t>(sum.words().count);
  if (a.json) {
    nlohmann::json json = {{"split", name_of(split)},     {"loss", sum.mean()},
                           {"perplexity", perplexity},    {"tokens", tokens},
                           {"samples", of_split.samples}, {"step", model.step()}};
    for (std::size_t i = 0; losses.size() > 1 && i < losses.size(); ++i)
      json[losses[i].metric] = sum.parts[i].mean();
    fmt::print("{}\n", json.dump());
    return;
  }
  std::vector<std::string> parts;
  for (std::size_t i = 0; losses.size() > 1 && i < losses.size(); ++i)
    parts.push_back(fmt::format("{} {:.4f}", losses[i].word, sum.parts[i].mean()));
  const std::string of_words = parts.empty() ? "" : fmt::format("of the {} ", losses[0].word);
  fmt::print("{:<5} loss {:.4f}{}  perplexity {}{:.2f}  ({}, {}, step {})\n", name_of(split),
             sum.mean(), parts.empty() ? "" : fmt::format(" ({})", fmt::join(parts, ", ")),
             of_words, perplexity, counted(tokens, "token"), counted(of_split.samples, "sample"),
             model.step());
}

// Evaluates on the run's own data. One of the two splits may have none.
void evaluate_run(const EvalArguments& a, TrainedModel& model) {
  if (a.split) return print_split(a, model, *a.split);
  std::vector<std::string> problems;
  for (const Split split : {Split::valid, Split::test}) {
    try {
      print_split(a, model, split);
    } catch (const Error& error) {
      if (error.code() != ExitCode::bad_input) throw;
      problems.emplace_back(error.what());
    }
  }
  if (problems.size() == 2) {
    fail_input("{}; {}. Add --text FILE, --data PREFIX or --split train", problems[0], problems[1]);
  }
  for (const std::string& problem : problems) fmt::print(stderr, "note: {}\n", problem);
}

void evaluate(const EvalArguments& a) {
  const int given = !a.text.empty() + !a.data.empty() + !a.tasks.empty() + a.split.has_value();
  if (given > 1)
    fail_input("give only one of --text FILE, --data PREFIX, --tasks FILE and --split NAME");
  TrainedModel model(a.model, a.overrides);
  if (!a.tasks.empty()) {
    if (a.samples > 0) fail_input("--samples applies only to the run's own data: remove it");
    return evaluate_task_files(model, a.tasks, a.json);
  }
  if (a.text.empty() && a.data.empty()) return evaluate_run(a, model);
  if (a.samples > 0) fail_input("--samples applies only to the run's own data: remove it");
  model.require_next_token();
  const TextStream stream = a.text.empty()
                                ? read_indexed(a, model)
                                : read_text_stream(a.text, a.documents, model.tokenizer());
  if (stream.ids.size() < 2)
    fail_input("'{}' contains no text to score", a.text.empty() ? a.data : a.text);
  const Evaluation e = evaluate_tokens(model, stream.ids, stream.bytes, a.options);
  a.json ? print_json(e, model.step()) : print_text(e, model.step());
}

}  // namespace

void add_eval(CLI::App& app) {
  const std::vector<std::pair<std::string, DocumentForm>> forms = {
      {"file", DocumentForm::file},
      {"paragraph", DocumentForm::paragraphs},
      {"line", DocumentForm::line}};
  auto* command = app.add_subcommand(
      "eval",
      "Loss and perplexity on the run's own validation and test data, or on text or indexed data; "
      "accuracy on tasks");
  auto a = std::make_shared<EvalArguments>();
  command->add_option("model", a->model, "Folder of a run or of a checkpoint")->required();
  const std::vector<std::pair<std::string, Split>> splits = {
      {"train", Split::train}, {"valid", Split::valid}, {"test", Split::test}};
  command->add_option("--split", a->split, "Split of the run's own data (default: valid and test)")
      ->transform(CLI::CheckedTransformer(splits))
      ->option_text("train|valid|test");
  command
      ->add_option("--samples", a->samples,
                   "Number of samples of the split, starting with the first; 0: as many as in an "
                   "evaluation of the run")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--text", a->text, "Text file");
  command->add_option("--documents", a->documents, "How the text file is split into documents")
      ->transform(CLI::CheckedTransformer(forms))
      ->option_text("file|paragraph|line (default: file)");
  command->add_option("--data", a->data,
                      "Prefix of an indexed dataset; bits per byte require a tokenizer");
  command->add_option("--tasks", a->tasks,
                      "Task files, one JSON object per line: accuracy and perplexity by "
                      "log-likelihood, as in lm-evaluation-harness");
  command->add_option("--batch", a->options.batch, "Windows per batch")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--stride", a->options.stride,
                   "Tokens from the start of one window to the next, at most a window; 0: half a "
                   "window")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--json", a->json, "Print the figures as JSON");
  command->add_option("--set", a->overrides, "section.key=value for the saved configuration");
  command->footer(task_files_help());
  command->callback([a] { evaluate(*a); });
}

}  // namespace trireme::cli
