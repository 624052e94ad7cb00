// `trireme score`: writes logits of given token sequences as safetensors.
#include "generate/scoring.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "cli/json_ids.h"

namespace trireme::cli {
namespace {

struct ScoreArguments {
  std::string model, ids, output;
  std::vector<std::string> overrides;
  bool json = false;
};

// Parses an array of ids, or an object with "ids" and optional "token_types"; otherwise empty.
std::optional<ScoredSequence> parse_sequence(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  const auto ids = json_ids(json.is_object() ? json.value("ids", nlohmann::json()) : json);
  if (!ids) return std::nullopt;
  ScoredSequence sequence{.ids = *ids, .token_types = {}};
  if (json.is_object() && json.contains("token_types")) {
    auto types = json_ids(json["token_types"]);
    if (!types) return std::nullopt;
    sequence.token_types = std::move(*types);
  }
  return sequence;
}

// One sequence per line.
std::vector<ScoredSequence> read_ids(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::vector<ScoredSequence> sequences;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    auto sequence = parse_sequence(line);
    if (!sequence) {
      fail_input(
          "{}:{}: expected a JSON array of token ids, or an object with \"ids\" and, for BERT, "
          "\"token_types\"",
          path, number);
    }
    sequences.push_back(std::move(*sequence));
  }
  if (sequences.empty())
    fail_input("'{}' is empty: expected one JSON array of token ids per line", path);
  return sequences;
}

void score(const ScoreArguments& a) {
  const auto sequences = read_ids(a.ids);
  TrainedModel model(a.model, a.overrides);
  stoppable([&] { write_logits(model, sequences, a.output); });
  if (a.json) {
    fmt::print("{}\n",
               nlohmann::json(
                   {{"sequences", sequences.size()}, {"output", a.output}, {"step", model.step()}})
                   .dump());
  } else {
    fmt::print("logits of {}: {}\n", counted(sequences.size(), "sequence"), a.output);
  }
}

}  // namespace

void add_score(CLI::App& app) {
  auto* command = app.add_subcommand("score", "Write the logits of token sequences");
  auto a = std::make_shared<ScoreArguments>();
  command->add_option("model", a->model, "Folder of a run or of a checkpoint")->required();
  command
      ->add_option("--ids", a->ids,
                   "File with one JSON array of token ids per line; for BERT also {\"ids\": [...], "
                   "\"token_types\": [...]}")
      ->required();
  command
      ->add_option("--output", a->output,
                   "Safetensors file to write: logits.N [tokens, vocabulary] in f32; BERT: also "
                   "order_logits.N [2]")
      ->required();
  command->add_option("--set", a->overrides,
                      "section.key=value for the saved configuration, e.g. run.precision=fp32");
  command->add_flag("--json", a->json, "Print a summary as JSON");
  command->callback([a] { score(*a); });
}

}  // namespace trireme::cli
