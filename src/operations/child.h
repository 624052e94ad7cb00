// Runs a command once to its end and forwards signals to it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/signal_handlers.h"
#include "operations/blame.h"

namespace trireme {

// During its lifetime, SIGINT, SIGTERM, SIGHUP and SIGUSR1 are recorded and do not end the process.
class StopSignals {
 public:
  StopSignals();
  // The first signal received, or 0.
  static int first();
  static int interrupts();  // number of Ctrl-C presses

 private:
  SignalHandlers handlers_;
};

struct ChildEnd {
  int code = 0;       // exit code, or minus the signal that killed it
  bool hung = false;  // had to be ended, long after the end of the run
};

// Limit for a command that does not exit by itself, such as a launcher that has lost a
// node.
struct ChildLimit {
  std::function<bool()> is_over;  // whether the run is over, regardless of its launcher
  double seconds = 0;             // grace period after its end; 0: no limit
};

// The code is 127 if the command cannot be started. The first recorded signal is forwarded as
// SIGUSR1, whichever it was: mpirun and srun pass that one on to the ranks, which save and stop,
// but end them immediately on others. A second Ctrl-C interrupts the command, a third one kills it.
// Processes left in its process group are killed. With `blame` its standard error is relayed
// through this process; with `reads_output` its standard output too, where MPICH's mpiexec reports
// on hosts.
ChildEnd run_child(const std::vector<std::string>& command, Blame* blame, const ChildLimit& limit,
                   bool reads_output = false);

}  // namespace trireme
