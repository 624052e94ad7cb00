// Computes the optimal string alignment distance with three rows.
#include "config/nearest.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace trireme {
namespace {

std::string folded(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  constexpr std::size_t kLongestName = 200;  // longer names are not typos
  if (name.size() > kLongestName) return "";
  const std::string wanted = folded(name);
  // Allows errors in up to a third of the letters, at least two, but at most half of a short
  // candidate. A common prefix is just within the limit.
  const int limit = static_cast<int>(std::max<std::size_t>(2, name.size() / 3));
  std::string best;
  int best_distance = limit + 1;
  for (const std::string& candidate : candidates) {
    const std::string known = folded(candidate);
    int distance = edit_distance(wanted, known);
    if (wanted.size() >= 3 && (known.starts_with(wanted) || wanted.starts_with(known))) {
      distance = std::min(distance, limit);
    }
    if (distance < best_distance && 2 * distance <= static_cast<int>(known.size())) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace trireme
