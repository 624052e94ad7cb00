// The words of Open MPI (mpirun and prterun), of MPICH's Hydra and of srun.
#include "supervise/blame.h"

#include <algorithm>

#include "supervise/host_list.h"
#include "train/run_status.h"

namespace trireme {
namespace {

constexpr std::size_t longest_line = 4096;

// What stands between two texts; "" where they do not follow each other in the line.
std::string_view between(std::string_view line, std::string_view before, std::string_view after) {
  const std::size_t at = line.find(before);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + before.size());
  return line.substr(0, after.empty() ? line.size() : line.find(after));
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

// "mpirun noticed that process rank 1 with PID 12 on node n7 exited on signal 9 (Killed)."
std::string_view blamed_by_open_mpi(std::string_view line) {
  if (line.find(" noticed that process rank ") == std::string_view::npos) return {};
  if (line.find(" exited on signal ") == std::string_view::npos) return {};
  return between(line, " on node ", " exited on signal ");
}

// "srun: error: n7: task 3: Killed", "srun: error: Node failure on n7". What srun itself ends after
// the first failure it calls "Terminated", and an exit code is a rank's own.
std::string_view blamed_by_srun(std::string_view line) {
  constexpr std::string_view error = "srun: error: ", lost = "Node failure on ";
  if (!line.starts_with(error)) return {};
  line.remove_prefix(error.size());
  if (line.starts_with(lost)) return without_blanks(line.substr(lost.size()));
  for (const std::string_view cause :
       {"Killed", "Segmentation fault", "Bus error", "Aborted", "Illegal instruction",
        "Floating point exception", "Out Of Memory"}) {
    if (line.find(": task") != std::string_view::npos && line.find(cause) != std::string_view::npos)
      return line.substr(0, line.find(": task"));
  }
  return {};
}

// "trireme: rank 0: silent corruption found ...; suspect nodes: n7, n9"
std::vector<std::string> suspected_by_guard(std::string_view line) {
  std::vector<std::string> hosts;
  for (std::string_view rest = between(line, suspect_nodes, ""); !rest.empty();) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view host = without_blanks(rest.substr(0, end));
    if (is_host_name(host)) hosts.emplace_back(host);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return hosts;
}

}  // namespace

void Blame::read_line(std::string_view line) {
  if (!hosts_.empty()) return;
  if (hosts_ = suspected_by_guard(line); !hosts_.empty()) return;
  std::string_view host = blamed_by_open_mpi(line);
  if (host.empty()) host = blamed_by_srun(line);
  // "=   PID 12 RUNNING AT n7", and later "... WITH THE EXIT STRING: Killed (signal 9)".
  if (const std::string_view at = between(line, " RUNNING AT ", ""); !at.empty())
    running_ = without_blanks(at);
  if (host.empty() && line.find("EXIT STRING: ") != std::string_view::npos &&
      line.find("(signal ") != std::string_view::npos)
    host = running_;
  if (is_host_name(host)) hosts_ = {std::string(host)};
}

void Blame::read(std::string_view piece) {
  for (std::size_t end; (end = piece.find('\n')) != std::string_view::npos;
       piece.remove_prefix(end + 1)) {
    rest_ += piece.substr(0, end);
    read_line(rest_);
    rest_.clear();
  }
  // A line without an end is not kept for ever.
  rest_ += piece.substr(0, longest_line - std::min(longest_line, rest_.size()));
}

}  // namespace trireme
