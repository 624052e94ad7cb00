// A time limit for MPI calls that may never return.
#pragma once

#include <signal.h>

#include <string>

namespace trireme {

// Terminates the process if it is still alive after `seconds`: prints the message and exits with
// the code. Uses a signal, since none of our threads may exist and a hung thread runs no other
// code. One instance at a time.
class AlarmLimit {
 public:
  AlarmLimit(double seconds, const std::string& message, int exit_code);
  ~AlarmLimit();
  AlarmLimit(const AlarmLimit&) = delete;
  AlarmLimit& operator=(const AlarmLimit&) = delete;

  // Makes SIGTERM also exit with the exit code, silently.
  void end_at_once_on_sigterm();

 private:
  struct sigaction alarm_before_ {
  }, term_before_{};
  bool hears_sigterm_ = false;
};

}  // namespace trireme
