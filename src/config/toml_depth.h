// Bounds the nesting depth of TOML keys, which the TOML library does not: it recurses into each
// part of a dotted key.
#pragma once

#include <string_view>

namespace trireme {

inline constexpr int max_toml_key_parts = 32;

// The line (from 1) of the first dotted key ("a.b.c") with more parts than that, or 0.
int line_of_deep_key(std::string_view toml);

}  // namespace trireme
