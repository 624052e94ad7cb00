// An end for calls of MPI that may never return.
#pragma once

#include <signal.h>

#include <string>

namespace trireme {

// Ends a process that is still alive after `seconds`: prints the message and exits with the code. A
// signal does it, since no thread of ours may be there, and a thread that hangs runs no other code.
// One at a time.
class AlarmLimit {
 public:
  AlarmLimit(double seconds, const std::string& message, int exit_code);
  ~AlarmLimit();
  AlarmLimit(const AlarmLimit&) = delete;
  AlarmLimit& operator=(const AlarmLimit&) = delete;

  // SIGTERM too ends the process with the exit code, without a word.
  void end_at_once_on_sigterm();

 private:
  struct sigaction alarm_before_ {
  }, term_before_{};
  bool hears_sigterm_ = false;
};

}  // namespace trireme
