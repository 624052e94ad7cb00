// A choice for each layer, as flags give it: one number, or a list as Python writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace trireme::megatron {

struct Pattern {
  bool is_number = false;  // values has that number alone
  std::vector<std::int64_t> values;
};

// Lists of numbers joined by "+" and repeated by "*", perhaps in brackets: "([0]*3+[1]*58)".
// Nothing where the text is anything else.
std::optional<Pattern> read_pattern(std::string_view text);

}  // namespace trireme::megatron
