// `trireme train`: trains from a configuration file.
#include "cli/train.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/evaluate/eval_tasks.h"
#include "cli/launch/job.h"
#include "cli/launch/launch.h"
#include "cli/launch/supervise.h"
#include "config/reference.h"
#include "plan/device_peak.h"
#include "plan/layout_plan.h"
#include "runtime/devices.h"
#include "runtime/join.h"
#include "train/run/setup.h"
#include "train/watch/interrupt.h"

namespace trireme::cli {
namespace {

struct TrainArguments {
  std::string file;
  std::vector<std::string> overrides;
  TrainCommand command;
  std::string log_level;  // "": as the configuration says
  std::optional<int> restarts;
  double restart_wait_s = RestartLimits{}.first_wait_s;
};

// Writes the full program of a step, graph passes and all else, next to the graphs.
void dump_step(Config config, int ranks, const fs::path& folder) {
  resolve_vocabulary(config);
  write_file_durably(folder / "step.txt", program_text(plan_layout(config, ranks)));
}

TrainSummary train_here(Config config, const TrainCommand& arguments, Transport& transport) {
  std::FILE* out = arguments.json ? stderr : stdout;
  const Place& place = transport.place();
  const bool leads = place.rank == 0;
  TrainerOptions options = arguments.options;
  options.peak_flops = peak_of_device(device_of(config.run.device).name(), config.run.precision);
  options.original_signal = signal_of_job;
  if (!config.train.eval_tasks.empty())
    options.evaluate_tasks = task_evaluation(config.train.eval_tasks);
  Trainer trainer(config, out, options, &transport);
  if (!arguments.dump_graph.empty()) {
    trainer.dump_graphs(arguments.dump_graph);
    if (!leads) return {};
    dump_step(std::move(config), place.size, arguments.dump_graph);
    fmt::print(out, "graphs and step program written to {}\n", arguments.dump_graph);
    return {};
  }
  const TrainSummary summary = trainer.run();
  if (leads && arguments.json) {
    nlohmann::json json = {
        {"steps", summary.steps},           {"loss", summary.loss},
        {"valid_loss", summary.valid_loss}, {"tokens_per_second", summary.tokens_per_second},
        {"train_seconds", summary.seconds}, {"end", name_of(summary.end)}};
    if (summary.test_loss) json["test_loss"] = *summary.test_loss;
    std::puts(json.dump().c_str());
  }
  return summary;
}

}  // namespace

TrainSummary train(Config config, const TrainCommand& arguments) {
  const InterruptGuard guard;  // installed early, since MPI takes time to start
  if (const LaunchInfo launch = discover_launch(); !is_in_job() && launch.rank == 0) {
    using enum InterruptGuard::Announced;
    InterruptGuard::announce(launch.size > 1 ? ctrl_c : all);
  }
  install_signal_handlers();
  TrainSummary summary;
  {
    const JoinedJob job(config.run.device, config.train.timeout_s);
    Transport& transport = job.transport();
    const bool leads = transport.place().rank == 0;
    if (leads) notify_job(JobState::listening);
    run_guarded(transport, [&] {
      job.choose_device();
      summary = train_here(std::move(config), arguments, transport);
      if (summary.end != TrainSummary::End::interrupted) return;
      // Must precede the exit of any rank: the launcher treats its exit code as a failure and kills
      // the others.
      if (leads) {
        std::fputs("trireme: interrupted and saved; the same command resumes it\n", stderr);
        std::fflush(stderr);
      }
      transport.world().barrier("the end of the run").wait();
      if (!is_in_job()) transport.set_exit_code(static_cast<int>(ExitCode::interrupted));
    });
    const bool interrupted = summary.end == TrainSummary::End::interrupted;
    if (leads) notify_job(interrupted ? JobState::interrupted : JobState::done);
  }
  if (summary.end != TrainSummary::End::interrupted) return summary;
  if (is_in_job()) return summary;  // mpirun would treat another exit code as a failure
  throw Error(ExitCode::interrupted, "");
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
                    "Debugging of the memory planner: give every value its own memory and fill "
                    "scratch memory with NaN; results are the same bits");
  command->add_option(
      "--dump-graph", arguments->command.dump_graph,
      "Write the graphs with their memory plans (text and DOT) and what a step enqueues (step.txt) "
      "to this folder and stop");
  command->footer([] { return configuration_help(); });
  command
      ->add_option("--nproc", arguments->command.nproc,
                   "Start this number of processes on this machine with mpirun")
      ->check(CLI::Range(1, 1 << 16));
  command
      ->add_option("--log-level", arguments->log_level,
                   "Log level of the terminal: log.level of the configuration")
      ->check(CLI::IsMember(names_of<LogLevel>()));
  add_restart_flags(*command, arguments->restarts, arguments->restart_wait_s);
  command->callback([arguments] {
    if (!arguments->log_level.empty())
      arguments->overrides.push_back("log.level=" + arguments->log_level);
    Config config = load_config(arguments->file, arguments->overrides);
    if (arguments->restarts)
      restart_own_command(config.run.dir, *arguments->restarts, arguments->restart_wait_s);
    if (arguments->command.nproc > 0) {
      // Reports errors once, without mpirun's own messages around them.
      check_start(config, arguments->command.nproc);
      launch_processes(arguments->command.nproc, config.run.dir);
    }
    train(std::move(config), arguments->command);
  });
}

}  // namespace trireme::cli
