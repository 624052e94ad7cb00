// Starts the command of a run, and starts it again after a failure: from the last checkpoint,
// without the node that failed, after growing waits, until it is done or no restart can help.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "operations/restart_policy.h"

namespace trireme {

// In a word of the command: the path of the file that lists the hosts of this start.
inline constexpr std::string_view hosts_word = "{hosts}";

struct SupervisedRun {
  std::vector<std::string> command;  // of the run, as a shell would be given it
  fs::path folder;                   // run.dir
  RestartLimits limits;
  std::string hosts;  // file of hosts; "": the command says itself where it runs
  int nodes = 0;      // hosts that a start uses; 0: all
  // Time that the launcher may continue after the run is over, before it is ended. MPI's own end
  // has less.
  double launcher_limit_s = 90;
  // That the launcher may take, with hosts of its own, until the run writes its first line. Without
  // `hosts` it may wait in a queue for as long as it likes.
  double start_limit_s = 1800;
  bool reads_errors = false;  // of the command, on their way, without --hosts too
};

// Returns the exit code for this process: that of the last start; 1 where the run was killed or
// failed too often. Where a signal ended it before anything was saved, this process dies of the
// same one. What happened is printed, written into the log of the run's folder, and one JSON object
// for each restart into its events.jsonl. Wrong hosts are refused (exit code 2) before anything is
// started.
int supervise(const SupervisedRun& run);

}  // namespace trireme
