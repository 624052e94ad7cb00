// Integer division that rounds up.
#pragma once

#include <cstdint>

namespace trireme {

// Always inlined, so that the linker cannot pick a copy compiled for another instruction set.
// Requires a >= 0 and b > 0.
[[gnu::always_inline]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Smallest multiple of `unit` that is at least `a`.
[[gnu::always_inline]] constexpr std::int64_t round_up(std::int64_t a, std::int64_t unit) {
  return ceil_div(a, unit) * unit;
}

}  // namespace trireme
