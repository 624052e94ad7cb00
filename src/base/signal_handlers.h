// A handler on some signals for a while.
#pragma once

#include <signal.h>

#include <initializer_list>
#include <utility>
#include <vector>

namespace trireme {

// While it lives, `handler` takes these signals, on the signal stack of the thread that they
// interrupt (see signal_stack.h; this thread gets one). What nohup or a shell's background job
// ignores stays ignored. `more_flags`: of sigaction.
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
