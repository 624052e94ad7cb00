// Weights of splits.
#include "data/split.h"

#include <charconv>
#include <cmath>

#include "base/error.h"

namespace trireme {

Shares parse_split(const std::string& text) {
  std::array<double, 3> weights{};
  std::size_t count = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto skip = [&](std::string_view what) {
    while (at < end && what.find(*at) != what.npos) ++at;
  };
  for (skip(" "); at < end; skip(" ,/")) {
    double weight = 0;
    const auto [rest, error] = std::from_chars(at, end, weight, std::chars_format::fixed);
    if (error != std::errc() || !std::isfinite(weight) || weight < 0 || count == weights.size()) {
      fail_input("split '{}' is not valid: give up to three weights, such as 969,30,1", text);
    }
    weights[count++] = weight;
    at = rest;
    if (at < end && std::string_view(" ,/").find(*at) == std::string_view::npos) {
      fail_input("split '{}' is not valid: give up to three weights, such as 969,30,1", text);
    }
  }
  const double sum = weights[0] + weights[1] + weights[2];
  if (!(sum > 0) || !std::isfinite(sum)) {
    fail_input("split '{}' assigns no data to any split", text);
  }
  Shares shares;
  double begin = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double next = begin + weights[i] / sum;
    if (next > begin) shares[i] = Share{begin, next};
    begin = next;
  }
  return shares;
}

Range range_of(const Share& share, std::int64_t count) {
  const auto edge = [&](double x) {
    return static_cast<std::int64_t>(std::nearbyint(x * static_cast<double>(count)));
  };
  return {edge(share.begin), edge(share.end)};
}

}  // namespace trireme
