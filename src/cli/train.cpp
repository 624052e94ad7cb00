// `trireme train`: trains from a configuration file.
#include "cli/train.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "config/reference.h"

namespace trireme::cli {
namespace {

struct TrainArguments {
  std::string file;
  std::vector<std::string> overrides;
  TrainCommand command;
};

}  // namespace

void train(Config config, const TrainCommand& arguments) {
  std::FILE* out = arguments.json ? stderr : stdout;
  Trainer trainer(std::move(config), out, arguments.options);
  if (!arguments.dump_graph.empty()) {
    trainer.dump_graphs(arguments.dump_graph);
    fmt::print(out, "graphs written to {}\n", arguments.dump_graph);
    return;
  }
  const TrainSummary summary = trainer.run();
  if (arguments.json) {
    const nlohmann::json json = {
        {"steps", summary.steps},           {"loss", summary.loss},
        {"valid_loss", summary.valid_loss}, {"tokens_per_second", summary.tokens_per_second},
        {"train_seconds", summary.seconds}, {"interrupted", summary.interrupted}};
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("{} at step {}: loss {:.4f}, {:.0f} tokens/s\n",
               summary.interrupted ? "stopped and saved" : "done", summary.steps, summary.loss,
               summary.tokens_per_second);
  }
  if (summary.interrupted)
    throw Error(ExitCode::interrupted, "interrupted; the same command goes on");
}

void add_train(CLI::App& app) {
  auto* command = app.add_subcommand("train", "Train a model from a configuration file");
  auto arguments = std::make_shared<TrainArguments>();
  command->add_option("file", arguments->file, "TOML file; docs/configuration.md lists its keys")
      ->required();
  command->add_option("overrides", arguments->overrides, "section.key=value, applied in order");
  command->add_flag("--json", arguments->command.json,
                    "Print the summary as JSON; progress goes to stderr");
  command->add_flag("--paranoid", arguments->command.options.paranoid,
                    "Give every value its own memory and fill scratch with NaN: the same bits, to "
                    "find bugs of the memory planner");
  command->add_option(
      "--dump-graph", arguments->command.dump_graph,
      "Write the graphs with their memory plans to this folder (text and DOT) and stop");
  command->footer([] { return configuration_help(); });
  command->callback([arguments] {
    train(load_config(arguments->file, arguments->overrides), arguments->command);
  });
}

}  // namespace trireme::cli
