// An end for calls of MPI that may never return.
#pragma once

#include <signal.h>

#include <string>

namespace trireme {

// Where it still lives after `seconds`, the process prints the message and ends with the exit code.
// A signal, since no thread of ours may be there, and one that hangs runs no other code. One at a
// time.
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
