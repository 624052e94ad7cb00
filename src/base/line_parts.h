// Suballocates a memory block into consecutive parts aligned to cache lines.
#pragma once

#include <cstdint>

#include "base/divide.h"

namespace trireme {

struct LineParts {
  std::int64_t bytes = 0;  // total of all parts so far

  // Adds a part of this many bytes and returns its offset.
  std::int64_t add(std::int64_t part) {
    constexpr std::int64_t line = 64;
    const std::int64_t begin = bytes;
    bytes += round_up(part, line);
    return begin;
  }
};

}  // namespace trireme
