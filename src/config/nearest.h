// Finds the known name nearest to a misspelled one, for "did you mean" messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace trireme {

// Number of insertions, deletions, substitutions and adjacent swaps that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `name`; "" if none is close enough. The first one wins ties. Ignores
// case and treats '-' and '_' as equal.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace trireme
