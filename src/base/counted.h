// Counts: formatted with their noun, and validated when read from foreign files.
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

// Converts a number of a foreign file to a count; nullopt if negative, fractional or above 10^15.
inline std::optional<std::int64_t> whole_count(double value) {
  if (!(value >= 0 && value <= 1e15 && value == std::floor(value))) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

}  // namespace trireme
