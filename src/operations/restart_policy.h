// Decides whether to restart a run that has ended, and after which delay. Pure: a function of how
// each start ended.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// How one start of a run ended.
struct Ending {
  int code = 0;            // exit code; minus the signal that killed it
  std::string state;       // from status.json, if this start wrote it; otherwise ""
  std::string reason;      // as above
  std::int64_t saved = 0;  // step of the newest checkpoint; 0: none
  bool asked = false;      // a signal asked it to save and stop
  bool hung = false;       // the launcher had to be ended, long after the end of the run
  bool begun = true;       // the run has produced output
  // Step of the newest local checkpoint, if a status.json of this start has one.
  std::int64_t saved_locally = 0;
};

struct RestartLimits {
  int restarts = 0;  // consecutive ones without a new checkpoint
  // Delay of the first restart; doubled for each further restart without a new checkpoint.
  double first_wait_s = 5;
  double longest_wait_s = 300;
};

struct Decision {
  enum class Action { end, restart, give_up } action = Action::end;
  double wait_s = 0;  // before a restart
  std::string why;    // the failure, or why there is no restart
};

class RestartPolicy {
 public:
  // `saved`: step of the newest checkpoint before the first start.
  RestartPolicy(const RestartLimits& limits, std::int64_t saved) : limits_(limits), saved_(saved) {}

  Decision after(const Ending& ending);
  int failures() const { return failures_; }  // consecutive, without a new checkpoint

 private:
  RestartLimits limits_;
  std::int64_t saved_;  // latest saved step, locally or not
  int failures_ = 0;
};

// Formats "exit code 1: rank 3: ..." or "killed by signal 9 (Killed)".
std::string failure_text(const Ending& ending);

}  // namespace trireme
