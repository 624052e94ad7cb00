// Scoped signal handlers.
#pragma once

#include <signal.h>

#include <initializer_list>
#include <utility>
#include <vector>

namespace trireme {

// Installs `handler` for these signals for its lifetime, on the signal stack of the interrupted
// thread (see signal_stack.h; the calling thread gets one). Signals that are ignored, for example
// under nohup, stay ignored. `more_flags` are added to sigaction's flags.
class SignalHandlers {
 public:
  SignalHandlers(std::initializer_list<int> signals, void (*handler)(int), int more_flags = 0);
  ~SignalHandlers();
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace trireme
