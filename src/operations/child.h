// One start of a command: runs it to its end, and passes signals on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/signal_handlers.h"
#include "operations/blame.h"

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

struct ChildEnd {
  int code = 0;       // exit code, or minus the signal that killed it
  bool hung = false;  // it had to be ended, long after the run was over
};

// Detection of the end of a command that does not end by itself, as launchers that have lost a node
// may not.
struct ChildLimit {
  std::function<bool()> is_over;  // whether the run is over, whatever its launcher does
  double seconds = 0;             // that it may be over; 0: no limit
};

// The code is 127 where the command cannot be started. The first signal that was noted reaches it
// as SIGUSR1, whatever it was: mpirun and srun hand that one on to the ranks, which save and stop,
// and would end them at once for others. A second Ctrl-C interrupts it, a third one kills it. What
// it leaves behind in its process group is killed. With `blame` its standard error passes through
// here on its way, with `reads_output` its standard output too, to which MPICH's mpiexec says what
// it says of hosts.
ChildEnd run_child(const std::vector<std::string>& command, Blame* blame, const ChildLimit& limit,
                   bool reads_output = false);

}  // namespace trireme
