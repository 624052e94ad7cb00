// Signals that ask a run to save and stop.
#pragma once

#include "base/signal_handlers.h"

namespace trireme {

// While it lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1 (a batch system's warning before the
// walltime) are noted instead of ending the process, unless they were ignored. A second SIGINT ends
// it at once.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();

  // The signal that arrived first, or 0.
  static int pending();

 private:
  SignalHandlers handlers_;
};

}  // namespace trireme
