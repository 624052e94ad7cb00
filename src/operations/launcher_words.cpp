// Exact messages, from the launchers' sources and from their output when hosts were lost.
#include "operations/launcher_words.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "operations/host_list.h"

namespace trireme {
namespace {

// "mpirun noticed that process rank 1 with PID 12 on node n7 exited on signal 9 (Killed)."
std::string_view killed_under_open_mpi(std::string_view line) {
  if (line.find(" noticed that process rank ") == std::string_view::npos) return {};
  if (line.find(" exited on signal ") == std::string_view::npos) return {};
  return between(line, " on node ", " exited on signal ");
}

// "ssh: connect to host n7 port 22: No route to host", "ssh: Could not resolve hostname n7: ..."
std::string_view not_reached_by_ssh(std::string_view line) {
  if (!line.starts_with("ssh: ")) return {};
  const std::string_view host = between(line, "connect to host ", " port ");
  return host.empty() ? between(line, "Could not resolve hostname ", ": ") : host;
}

// Whether the number in Hydra's EXIT CODE is a signal, plus 128 with a core dump. Our own ranks
// exit with 0 to 3.
bool means_killed(std::string_view number) {
  constexpr std::array<int, 6> signals = {4, 6, 7, 8, 9, 11};
  int code = 0;
  if (std::from_chars(number.data(), number.data() + number.size(), code).ec != std::errc{})
    return false;
  return std::ranges::count(signals, code > 128 ? code - 128 : code) > 0;
}

}  // namespace

std::string_view between(std::string_view line, std::string_view before, std::string_view after) {
  const std::size_t at = line.find(before);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + before.size());
  const std::size_t end = after.empty() ? line.size() : line.find(after);
  return end == std::string_view::npos ? std::string_view{} : line.substr(0, end);
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

// Parses "=   PID 12 RUNNING AT n7", followed by "EXIT CODE: 9" or "EXIT STRING: Killed (signal
// 9)"; after loss of its proxy, "... connection to proxy 1 at host n7 failed".
std::string_view LauncherWords::blamed_by_hydra(std::string_view line) {
  if (const std::string_view at = between(line, " RUNNING AT ", ""); !at.empty())
    running_ = without_blanks(at);
  const bool by_code = means_killed(without_blanks(between(line, " EXIT CODE: ", "")));
  const bool by_string = line.find("EXIT STRING: ") != std::string_view::npos &&
                         line.find("(signal ") != std::string_view::npos;
  if (by_code || by_string) return running_;
  if (line.find("connection to proxy ") == std::string_view::npos) return {};
  return between(line, " at host ", " failed");
}

// Parses "srun: error: n7: task 3: Killed", "srun: error: Node failure on n7". An exit code is the
// rank's own; tasks that srun itself ends after a first failure are "Terminated", or "Killed" if
// that takes too long.
std::string_view LauncherWords::blamed_by_srun(std::string_view line) {
  constexpr std::string_view error = "srun: error: ", lost = "Node failure on ";
  step_is_ending_ |=
      line.starts_with("srun: ") && (line.find("Terminating StepId=") != std::string_view::npos ||
                                     line.find("Job step aborted") != std::string_view::npos);
  if (!line.starts_with(error)) return {};
  line.remove_prefix(error.size());
  if (line.starts_with(lost)) return without_blanks(line.substr(lost.size()));
  // "Task launch for StepId=4.0 failed on node n7: Communication connection failure"
  if (line.starts_with("Task launch for ")) return between(line, " failed on node ", ": ");
  const std::size_t task = line.find(": task");
  if (step_is_ending_ || task == std::string_view::npos) return {};
  step_is_ending_ = line.find("Exited with exit code") != std::string_view::npos;
  for (const std::string_view cause :
       {"Killed", "Segmentation fault", "Bus error", "Aborted", "Illegal instruction",
        "Floating point exception", "Out Of Memory"})
    if (line.find(cause) != std::string_view::npos) return line.substr(0, task);
  return {};
}

// "ORTE has lost communication with a remote daemon.", later "  Remote daemon: [[1,0],2] on node
// n7";
// "... does not know how to route a message to the specified daemon ...", later "  target node:
// n7". PRRTE, which is Open MPI 5's, has the same words.
std::string_view LauncherWords::lost_by_open_mpi(std::string_view line) {
  if (line.find(" has lost communication with a remote daemon") != std::string_view::npos)
    wanted_ = "Remote daemon:";
  if (line.find(" does not know how to route a message to ") != std::string_view::npos)
    wanted_ = "target node:";
  if (wanted_.empty()) return {};
  std::string_view rest = between(line, wanted_, "");
  if (rest.empty()) return {};
  wanted_ = {};
  const std::string_view node = between(rest, " on node ", "");
  return without_blanks(node.empty() ? rest : node);
}

std::string_view LauncherWords::failed_host(std::string_view line) {
  for (const std::string_view host : {killed_under_open_mpi(line), lost_by_open_mpi(line),
                                      blamed_by_srun(line), not_reached_by_ssh(line)})
    if (!host.empty()) return host;
  return blamed_by_hydra(line);
}

std::vector<std::string> LauncherWords::failed_hosts(std::string_view line) {
  return hosts_in(failed_host(line));
}

}  // namespace trireme
