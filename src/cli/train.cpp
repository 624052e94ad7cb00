// `trireme train`: trains from a configuration file.
#include "cli/train.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "config/reference.h"
#include "train/setup.h"

namespace trireme::cli {
namespace {

struct TrainArguments {
  std::string file;
  std::vector<std::string> overrides;
  TrainCommand command;
};

TrainSummary train_here(Config config, const TrainCommand& arguments, Transport& transport) {
  std::FILE* out = arguments.json ? stderr : stdout;
  const bool leads = transport.place().rank == 0;
  Trainer trainer(std::move(config), out, arguments.options, &transport);
  if (!arguments.dump_graph.empty()) {
    trainer.dump_graphs(arguments.dump_graph);
    if (leads) fmt::print(out, "graphs written to {}\n", arguments.dump_graph);
    return {};
  }
  const TrainSummary summary = trainer.run();
  if (leads && arguments.json) {
    const nlohmann::json json = {
        {"steps", summary.steps},           {"loss", summary.loss},
        {"valid_loss", summary.valid_loss}, {"tokens_per_second", summary.tokens_per_second},
        {"train_seconds", summary.seconds}, {"interrupted", summary.interrupted}};
    fmt::print("{}\n", json.dump());
  } else if (leads && summary.seconds == 0 && !summary.interrupted) {
    fmt::print("nothing to do: the run is at step {} already; raise train.iters to go on\n",
               summary.steps);
  } else if (leads) {
    fmt::print("{} at step {}: loss {:.4f}, {:.0f} tokens/s\n",
               summary.interrupted ? "stopped and saved" : "done", summary.steps, summary.loss,
               summary.tokens_per_second);
  }
  return summary;
}

// What the ranks would refuse is said here, once and without mpirun's frame around it.
void check_before_launch(const Config& config, int processes) {
  validate(config);
  validate_layout(config, processes);
  refuse_what_is_not_there(config);
}

}  // namespace

void train(Config config, const TrainCommand& arguments) {
  TrainSummary summary;
  {
    const auto transport = open_transport({.timeout_s = config.train.timeout_s});
    run_guarded(*transport, [&] {
      summary = train_here(std::move(config), arguments, *transport);
      if (!summary.interrupted) return;
      // Before any rank ends: its exit code is a failure to the launcher, which then ends the
      // others.
      if (transport->place().rank == 0) {
        std::fputs("trireme: interrupted; the same command goes on\n", stderr);
        std::fflush(stderr);
      }
      transport->world().barrier("the end of the run").wait();
    });
  }
  if (summary.interrupted) throw Error(ExitCode::interrupted, "");
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
  command
      ->add_option("--nproc", arguments->command.nproc,
                   "Start so many processes on this machine with mpirun")
      ->check(CLI::Range(1, 1 << 16));
  command->callback([arguments] {
    Config config = load_config(arguments->file, arguments->overrides);
    if (arguments->command.nproc > 0) {
      check_before_launch(config, arguments->command.nproc);
      launch_processes(arguments->command.nproc);
    }
    train(std::move(config), arguments->command);
  });
}

}  // namespace trireme::cli
