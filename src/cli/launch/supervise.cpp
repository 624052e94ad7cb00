// `trireme supervise`: restarts a run's launcher when the run fails.
#include "cli/launch/supervise.h"

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/launch/launch.h"
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
                  "After a failure, restart the run, at most this many times in a row without a "
                  "new checkpoint")
      ->check(CLI::Range(0, 1000));
  command
      .add_option("--restart-wait", wait_s,
                  "Seconds before the first restart; the delay doubles with each further restart "
                  "without a new checkpoint, up to 300")
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
        "--restarts: {} has already started {} processes, each of which would restart the run; "
        "start {} with trireme supervise instead",
        launch.launcher, launch.size, launch.launcher);
  }
  std::fflush(nullptr);
  std::exit(supervise(run));
}

void add_supervise(CLI::App& app) {
  auto* command = app.add_subcommand(
      "supervise", "Run a training command (mpirun or srun) and restart it after failures");
  auto arguments = std::make_shared<SuperviseArguments>();
  SupervisedRun& run = arguments->run;
  command->add_option("--run", run.folder, "Folder of the run: run.dir of the command")->required();
  add_restart_flags(*command, arguments->restarts, run.limits.first_wait_s);
  command->add_option(
      "--hosts", run.hosts,
      "Host file, one host per line; {hosts} in the command is replaced by a file with the hosts "
      "used for a start, where spare hosts replace failed ones");
  command
      ->add_option("--nodes", run.nodes,
                   "Number of hosts that a start uses; the rest of --hosts are spares (default: "
                   "all)")
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--launcher-wait", run.launcher_limit_s,
                   "Seconds to wait for the launcher to exit after the run has ended before "
                   "killing it")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--start-wait", run.start_limit_s,
                   "Seconds that a launcher may take to start the run on --hosts before it is "
                   "killed and the nodes are checked")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  command->add_option(
      "command", run.command,
      "Command of the run after --, such as -- mpirun -n 4 trireme train FILE.toml");
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
