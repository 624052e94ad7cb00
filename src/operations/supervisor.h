// Runs a training command and restarts it after failures: from the last checkpoint, without the
// failed node, with growing delays, until it is done or restarts cannot help.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "operations/restart_policy.h"

namespace trireme {

// Placeholder in the command for the path of the file that lists the hosts of a start.
inline constexpr std::string_view hosts_word = "{hosts}";

struct SupervisedRun {
  std::vector<std::string> command;  // the run's, as given to a shell
  fs::path folder;                   // run.dir
  RestartLimits limits;
  std::string hosts;  // file of hosts; "": the command chooses its hosts itself
  int nodes = 0;      // number of hosts per start; 0: all
  // Time that the launcher may keep running after the run has ended, before it is ended too. MPI's
  // own shutdown limit is shorter.
  double launcher_limit_s = 90;
  // Time that the launcher may take, with given hosts, until the run writes its first line. Without
  // `hosts` it may wait in a queue indefinitely.
  double start_limit_s = 1800;
  bool reads_errors = false;  // of the command, while passing them on, without --hosts too
};

// Returns the exit code for this process: that of the last start; 1 if the run was killed or
// failed too often. If a signal ended it before anything was saved, this process dies of the same
// signal. Events are printed and written to the log in the run's folder, and one JSON object per
// restart to its events.jsonl. Invalid hosts are rejected (exit code 2) before anything is
// started.
int supervise(const SupervisedRun& run);

}  // namespace trireme
