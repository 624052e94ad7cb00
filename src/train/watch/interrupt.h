// Handling of signals that ask a run to save and stop.
#pragma once

#include <string_view>

#include "base/signal_handlers.h"

namespace trireme {

// Printed as soon as a run is asked to end.
inline constexpr std::string_view stopping_words =
    "\ntrireme: stopping after the current step, which will be saved; press Ctrl-C again to stop "
    "immediately\n";
inline constexpr std::string_view signalled_words =
    "\ntrireme: received a signal to stop: stopping after the current step, which will be saved\n";

// During its lifetime, SIGINT, SIGTERM, SIGHUP and SIGUSR1 (a batch system's warning before the
// time limit) are recorded instead of ending the process, unless they were ignored. A second SIGINT
// ends it immediately.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();

  // The signal that arrived first, or 0.
  static int pending();

  enum class Announced { nothing, ctrl_c, all };
  // Makes this process announce on standard error, as soon as one of these signals arrives, what it
  // will do: for the only process of a job that prints. A launcher also sends signals when another
  // rank has failed and said why, and then no step is saved: under a launcher only Ctrl-C is
  // announced.
  static void announce(Announced which);

 private:
  SignalHandlers handlers_;
};

}  // namespace trireme
