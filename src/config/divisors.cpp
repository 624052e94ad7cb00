// Formats divisors and multiples for messages.
#include "config/divisors.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace trireme {
namespace {

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d <= number / d; ++d) {
    if (number % d != 0) continue;
    low.push_back(d);
    if (d != number / d) high.push_back(number / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

}  // namespace

std::string divisors_near(std::int64_t number, std::int64_t wanted) {
  const std::vector<std::int64_t> all = divisors(number);
  const auto above = std::lower_bound(all.begin(), all.end(), wanted);
  const auto first = above - std::min<std::ptrdiff_t>(2, above - all.begin());
  const auto last = above + std::min<std::ptrdiff_t>(2, all.end() - above);
  std::string text;
  for (auto at = first; at != last; ++at) {
    text += fmt::format("{}{}", at == first ? "" : at + 1 == last ? " or " : ", ", *at);
  }
  return text;
}

std::string multiples_near(std::int64_t wanted, std::int64_t unit) {
  const std::int64_t below = wanted / unit * unit;
  return below == 0 ? fmt::format("{}", unit) : fmt::format("{} or {}", below, below + unit);
}

}  // namespace trireme
