// `trireme score`: logits of given token sequences as safetensors.
#include "generate/scoring.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/commands.h"

namespace trireme::cli {
namespace {

struct ScoreArguments {
  std::string model, ids, output;
  std::vector<std::string> overrides;
  bool json = false;
};

// One JSON array of ids per line.
std::vector<std::vector<std::int32_t>> read_ids(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::vector<std::vector<std::int32_t>> sequences;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    try {
      sequences.push_back(nlohmann::json::parse(line).get<std::vector<std::int32_t>>());
    } catch (const nlohmann::json::exception&) {
      fail_input("{}:{}: expected a JSON array of token ids", path, number);
    }
  }
  if (sequences.empty()) fail_input("'{}' holds no sequence", path);
  return sequences;
}

void score(const ScoreArguments& a) {
  const auto sequences = read_ids(a.ids);
  TrainedModel model(a.model, a.overrides);
  write_logits(model, sequences, a.output);
  if (a.json) {
    fmt::print("{}\n",
               nlohmann::json(
                   {{"sequences", sequences.size()}, {"output", a.output}, {"step", model.step()}})
                   .dump());
  } else {
    fmt::print("logits of {} sequences: {}\n", sequences.size(), a.output);
  }
}

}  // namespace

void add_score(CLI::App& app) {
  auto* command = app.add_subcommand("score", "Write the logits of token sequences");
  auto a = std::make_shared<ScoreArguments>();
  command->add_option("model", a->model, "folder of a run or of a checkpoint")->required();
  command->add_option("--ids", a->ids, "file with one JSON array of token ids per line")
      ->required();
  command
      ->add_option("--output", a->output, "safetensors file: logits.N [tokens, vocabulary] in f32")
      ->required();
  command->add_option("--set", a->overrides,
                      "section.key=value for the saved configuration, e.g. run.precision=fp32");
  command->add_flag("--json", a->json, "print what was written as JSON");
  command->callback([a] { score(*a); });
}

}  // namespace trireme::cli
