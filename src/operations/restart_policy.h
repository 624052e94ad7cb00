// Decides whether a run that has ended is restarted, and after which wait. Pure: a function of how
// each start ended.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// How one start of a run ended.
struct Ending {
  int code = 0;            // exit code; minus the signal that killed it
  std::string state;       // in status.json, where this start wrote it; else ""
  std::string reason;      // as above
  std::int64_t saved = 0;  // step of the newest checkpoint now; 0: none
  bool asked = false;      // a signal asked it to save and stop
  bool hung = false;       // its launcher had to be ended, long after the run was over
  bool begun = true;       // the run has written something
  // The same of the newest local checkpoint, where status.json, written by this start, names one.
  std::int64_t saved_locally = 0;
};

struct RestartLimits {
  int restarts = 0;  // in a row without a new checkpoint
  // Before the first restart; each further one without a new checkpoint waits twice as long.
  double first_wait_s = 5;
  double longest_wait_s = 300;
};

struct Decision {
  enum class Action { end, restart, give_up } action = Action::end;
  double wait_s = 0;  // before a restart
  std::string why;    // the failure, or why no restart follows
};

class RestartPolicy {
 public:
  // `saved`: step of the newest checkpoint before the first start.
  RestartPolicy(const RestartLimits& limits, std::int64_t saved) : limits_(limits), saved_(saved) {}

  Decision after(const Ending& ending);
  int failures() const { return failures_; }  // in a row without a new checkpoint

 private:
  RestartLimits limits_;
  std::int64_t saved_;  // the furthest so far, locally or not
  int failures_ = 0;
};

// "exit code 1: rank 3: ..." or "killed by signal 9 (Killed)".
std::string failure_text(const Ending& ending);

}  // namespace trireme
