// Decides by majority which ranks are cut off.
#include "comm/suspects.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace trireme {

std::vector<int> suspect_ranks(const std::vector<int>& silent, int own, int ranks) {
  return 2 * static_cast<int>(silent.size()) > ranks ? std::vector{own} : silent;
}

std::vector<std::string> suspect_hosts(const std::vector<int>& silent, int own,
                                       const std::vector<std::string>& hosts) {
  const auto is_first = [&](const std::string& host) { return host == hosts.front(); };
  if (std::ranges::all_of(hosts, is_first)) return {};
  std::vector<std::string> suspects;
  for (const int rank : suspect_ranks(silent, own, static_cast<int>(hosts.size()))) {
    const std::string& host = hosts[static_cast<std::size_t>(rank)];
    if (std::ranges::count(suspects, host) == 0) suspects.push_back(host);
  }
  return suspects;
}

std::string suspects_text(const std::vector<std::string>& hosts) {
  if (hosts.empty()) return "";
  return fmt::format("; {}{}", suspect_nodes, fmt::join(hosts, ", "));
}

}  // namespace trireme
