// Starts the command of a run, and starts it again after a failure: from the last checkpoint,
// without the node that failed, after growing waits, until it is done or no restart can help.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "operations/restart_policy.h"

namespace trireme {

// Placeholder in the command for the path of the file that lists the hosts of a start.
inline constexpr std::string_view hosts_word = "{hosts}";

struct SupervisedRun {
  std::vector<std::string> command;  // of the run, as a shell would be given it
  fs::path folder;                   // run.dir
  RestartLimits limits;
  std::string hosts;  // file of hosts; "": the command says itself where it runs
  int nodes = 0;      // hosts that a start uses; 0: all
  // Time that the launcher may keep running after the run has ended, before it is killed. MPI's own
  // shutdown limit is shorter.
  double launcher_limit_s = 90;
  // Time that the launcher may take, with given hosts, until the run writes its first line. Without
  // `hosts` it may wait in a queue indefinitely.
  double start_limit_s = 1800;
  bool reads_errors = false;  // of the command, while passing them on, without --hosts too
};

// Returns the exit code for this process: that of the last start; 1 where the run was killed or
// failed too often. Where a signal ended it before anything was saved, this process dies of the
// same one. What happened is printed, written into the log of the run's folder, and one JSON object
// for each restart into its events.jsonl. Wrong hosts are refused (exit code 2) before anything is
// started.
int supervise(const SupervisedRun& run);

}  // namespace trireme
