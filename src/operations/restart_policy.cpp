// The exit code takes precedence, then status.json, then the number of failures.
#include "operations/restart_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

// Shell exit codes for commands that cannot be executed or are not found.
constexpr int not_executable = 126, not_found = 127;

bool has_ended_as_meant(const Ending& e) {
  return e.asked || e.code == static_cast<int>(ExitCode::ok) ||
         e.code == static_cast<int>(ExitCode::interrupted) || e.state == "done" ||
         e.state == "stopped" || e.state == "interrupted";
}

std::string why_no_restart_helps(const Ending& e) {
  if (e.code == static_cast<int>(ExitCode::bad_input))
    return "exit code 2 means that its input is wrong, which a restart does not fix";
  if (e.code == not_executable || e.code == not_found)
    return fmt::format("exit code {} means that the command cannot be started", e.code);
  return "";
}

}  // namespace

std::string failure_text(const Ending& e) {
  if (e.hung && !e.begun) return "its launcher did not start it";
  if (e.hung) return "its launcher did not exit" + (e.reason.empty() ? "" : ": " + e.reason);
  const std::string how = e.code < 0 ? fmt::format("signal {} ({})", -e.code, strsignal(-e.code))
                                     : fmt::format("exit code {}", e.code);
  if (e.reason.find(how) != std::string::npos) return e.reason;
  const std::string text = e.code < 0 ? "killed by " + how : how;
  return e.reason.empty() ? text : text + ": " + e.reason;
}

Decision RestartPolicy::after(const Ending& ending) {
  using enum Decision::Action;
  if (has_ended_as_meant(ending)) return {end, 0, ""};
  if (std::string why = why_no_restart_helps(ending); !why.empty()) return {give_up, 0, why};
  // A node may be lost with its local checkpoints: reaching the same step again is no progress.
  const std::int64_t saved = std::max(ending.saved, ending.saved_locally);
  if (saved > saved_) failures_ = 0;
  saved_ = std::max(saved, saved_);
  ++failures_;
  const std::string failure = failure_text(ending);
  if (failures_ > limits_.restarts) {
    return {give_up, 0,
            fmt::format("it failed {} in a row without a new checkpoint, most recently with {}",
                        failures_ == 1 ? "once" : fmt::format("{} times", failures_), failure)};
  }
  const double wait = limits_.first_wait_s * std::exp2(std::min(failures_ - 1, 30));
  return {restart, std::min(wait, limits_.longest_wait_s), failure};
}

}  // namespace trireme
