// Assembles lines from pieces, and interprets them.
#include "operations/blame.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "comm/suspects.h"
#include "operations/host_list.h"

namespace trireme {
namespace {

constexpr std::size_t longest_line = 4096;

// Returns the rank of "trireme: rank 3 (n7): ...", a rank's final message; -1 for other lines.
int ending_rank(std::string_view line) {
  const std::string_view number = between(line, "trireme: rank ", " (");
  int rank = -1;
  const char* const end = number.data() + number.size();
  if (number.empty() || std::from_chars(number.data(), end, rank).ptr != end) return -1;
  return rank;
}

}  // namespace

std::vector<std::string> hosts_suspected_in(std::string_view text) {
  std::vector<std::string> hosts;
  for (std::string_view rest = between(text, suspect_nodes, ""); !rest.empty();) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view host = without_blanks(rest.substr(0, end));
    if (is_host_name(host)) hosts.emplace_back(host);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return hosts;
}

void Blame::read_line(std::string_view line) {
  const int rank = ending_rank(line);
  a_rank_ended_ |= rank >= 0;
  // If a job has split into two halves, each blames the other: the lower-ranked accuser is
  // believed, whichever message comes first.
  if (std::vector<std::string> hosts = hosts_suspected_in(line); !hosts.empty()) {
    const bool counts = hosts_.empty() || (accuser_ >= 0 && rank >= 0 && rank < accuser_);
    if (counts) hosts_ = std::move(hosts), accuser_ = rank;
    return;
  }
  if (!hosts_.empty()) return;
  if (const std::string_view bad = between(line, "bad node ", ": rank "); is_host_name(bad)) {
    hosts_.emplace_back(bad);
    accuser_ = std::numeric_limits<int>::max();  // any rank's accusation takes precedence
    return;
  }
  hosts_ = words_.failed_hosts(line);
}

void Blame::read(std::string_view piece, Stream stream) {
  std::string& rest = rests_[static_cast<std::size_t>(stream)];
  for (std::size_t end; (end = piece.find('\n')) != std::string_view::npos;
       piece.remove_prefix(end + 1)) {
    rest += piece.substr(0, end);
    if (stream == Stream::error) read_line(rest);
    // Ranks also write training data there, e.g. samples.
    else if (hosts_.empty())
      hosts_ = words_.failed_hosts(rest);
    rest.clear();
  }
  // Limits the length of a line without an end.
  rest += piece.substr(0, longest_line - std::min(longest_line, rest.size()));
}

}  // namespace trireme
