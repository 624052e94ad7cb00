// `trireme supervise`: restarts a run's launcher when the run fails.
#include "cli/supervise.h"

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "comm/transport.h"

namespace trireme::cli {
namespace {

struct SuperviseArguments {
  std::optional<int> restarts = 10;
  SupervisedRun run;
};

}  // namespace

void add_restart_flags(CLI::App& command, std::optional<int>& restarts, double& wait_s) {
  command
      .add_option("--restarts", restarts,
                  "After a failure start the run again, at most this many times in a row without a "
                  "new checkpoint")
      ->check(CLI::Range(0, 1000));
  command
      .add_option("--restart-wait", wait_s,
                  "Seconds before the first restart; each further one without a new checkpoint "
                  "waits twice as long, up to 300")
      ->check(CLI::Range(0.0, 300.0))
      ->capture_default_str();
}

void restart_own_command(const fs::path& folder, int restarts, double wait_s) {
  SupervisedRun run;
  run.command = own_command_without({"--restarts", "--restart-wait"});
  run.folder = folder;
  run.limits.restarts = restarts;
  run.limits.first_wait_s = wait_s;
  supervise_and_exit(run);
}

void supervise_and_exit(const SupervisedRun& run) {
  const LaunchInfo launch = discover_launch();
  if (launch.size > 1) {
    fail_input(
        "--restarts: {} has already started {} processes, each of which would start the run again; "
        "start {} from trireme supervise instead",
        launch.launcher, launch.size, launch.launcher);
  }
  std::fflush(nullptr);
  std::exit(supervise(run));
}

void add_supervise(CLI::App& app) {
  auto* command = app.add_subcommand(
      "supervise", "Run a command that trains, mpirun or srun, and start it again where it fails");
  auto arguments = std::make_shared<SuperviseArguments>();
  SupervisedRun& run = arguments->run;
  command->add_option("--run", run.folder, "The run's folder, run.dir of the command")->required();
  add_restart_flags(*command, arguments->restarts, run.limits.first_wait_s);
  command->add_option(
      "--hosts", run.hosts,
      "File of hosts, one in a line; {hosts} in the command becomes a file of those that a start "
      "uses, and one that failed gives way to a spare one");
  command
      ->add_option("--nodes", run.nodes,
                   "Hosts that a start uses, the rest of --hosts being spare (default: all)")
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--launcher-wait", run.launcher_limit_s,
                   "Seconds after the run is over before a launcher that does not end is ended")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--start-wait", run.start_limit_s,
                   "Seconds for which a launcher may take to start the run on --hosts before it is "
                   "ended and the nodes are checked")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  command->add_option(
      "command", run.command,
      "The command of the run after --, as in -- mpirun -n 4 trireme train FILE.toml");
  command->callback([arguments] {
    if (arguments->run.command.empty())
      fail_input(
          "supervise: expected the command of the run after --, for example: trireme supervise "
          "--run runs/x -- mpirun -n 4 trireme train run.toml run.dir=runs/x");
    arguments->run.limits.restarts = *arguments->restarts;
    arguments->run.reads_errors = true;
    supervise_and_exit(arguments->run);
  });
}

}  // namespace trireme::cli
