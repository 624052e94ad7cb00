// The known name nearest to a mistyped one, for messages that say "did you mean".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace trireme {

// Number of insertions, deletions, substitutions and swaps of neighbors that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest distance to `name`; "" where none is near enough to be meant.
// The first wins among equals. Case and the difference between '-' and '_' count for nothing.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace trireme
