// Per-layer values of a flag: a number, or a Python list expression.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace trireme::megatron {

struct Pattern {
  bool is_number = false;  // values has only that number
  std::vector<std::int64_t> values;
};

// Parses lists of numbers joined by "+" and repeated by "*", optionally in brackets:
// "([0]*3+[1]*58)". Returns nullopt for any other text.
std::optional<Pattern> read_pattern(std::string_view text);

}  // namespace trireme::megatron
