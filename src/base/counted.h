// Counts of things: with their noun in what commands print, and told from other numbers.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// "1 token", "2 tokens".
template <class Number>
std::string counted(Number count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// A number of a foreign file as a count, or nothing where it is negative, not whole or above 10^15.
inline std::optional<std::int64_t> whole_count(double value) {
  if (!(value >= 0 && value <= 1e15 && value == std::floor(value))) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

}  // namespace trireme
