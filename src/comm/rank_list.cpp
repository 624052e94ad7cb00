// Formats runs of ranks as ranges.
#include "comm/rank_list.h"

#include <fmt/format.h>

namespace trireme {

std::string rank_list(const std::vector<int>& ranks) {
  constexpr int max_ranges = 16;
  std::string text;
  int ranges = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    if (++ranges > max_ranges) return fmt::format("{} and {} more", text, ranks.size() - i);
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace trireme
