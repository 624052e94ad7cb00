// Division that rounds up.
#pragma once

#include <cstdint>

namespace trireme {

// Always inlined: no copy that was compiled for one instruction set can be linked into code for
// another one. Arguments are not negative, divisors positive.
[[gnu::always_inline]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// The smallest multiple of `unit` that is not below `a`.
[[gnu::always_inline]] constexpr std::int64_t round_up(std::int64_t a, std::int64_t unit) {
  return ceil_div(a, unit) * unit;
}

}  // namespace trireme
