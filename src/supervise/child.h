// One start of a command: runs it to its end, and passes signals on.
#pragma once

#include <string>
#include <vector>

#include "base/signal_handlers.h"
#include "supervise/blame.h"

namespace trireme {

// While it lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1 are noted instead of ending this process.
class StopSignals {
 public:
  StopSignals();
  // The signal that came first, or 0.
  static int first();
  static int interrupts();  // how often Ctrl-C was pressed

 private:
  SignalHandlers handlers_;
};

// Returns the exit code of the command, or minus the signal that killed it; 127 where it cannot be
// started. The first signal that was noted reaches it as SIGUSR1, whatever it was: mpirun and srun
// hand that one on to the ranks, which save and stop, and would end them at once for others. A
// second Ctrl-C interrupts it, a third one kills it. What it leaves behind in its process group is
// killed. With `blame` its standard error passes through here on its way.
int run_child(const std::vector<std::string>& command, Blame* blame);

}  // namespace trireme
