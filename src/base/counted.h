// Counts: formatted with their noun, and validated when read from foreign files.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace trireme {

// "tokens", "micro-batches", "entries"; in "chunks of layers" the noun before "of" changes.
inline std::string plural(std::string_view noun) {
  const std::size_t end = std::min(noun.find(" of "), noun.size());
  std::string head(noun.substr(0, end));
  const std::string_view rest = noun.substr(end);
  const auto ends = [&](std::string_view letters) { return head.ends_with(letters); };
  const bool hissing = ends("s") || ends("x") || ends("sh") || (ends("ch") && !ends("epoch"));
  if (ends("y") && !ends("ay") && !ends("ey") && !ends("oy")) {
    head.pop_back();
    return fmt::format("{}ies{}", head, rest);
  }
  return fmt::format("{}{}{}", head, hissing ? "es" : "s", rest);
}

// "1 token", "2 tokens", "1.5 micro-batches".
template <class Number>
std::string counted(Number count, std::string_view noun) {
  const std::string words = count == 1 ? std::string(noun) : plural(noun);
  if constexpr (std::is_floating_point_v<Number>)
    return fmt::format("{:g} {}", count, words);
  else
    return fmt::format("{} {}", count, words);
}

// Converts a number of a foreign file to a count; nullopt if negative, fractional or above 10^15.
inline std::optional<std::int64_t> whole_count(double value) {
  if (!(value >= 0 && value <= 1e15 && value == std::floor(value))) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

}  // namespace trireme
