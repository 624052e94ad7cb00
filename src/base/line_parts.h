// Parts of a block of memory, one after the other, each of which begins on a line of the cache.
#pragma once

#include <cstdint>

#include "base/divide.h"

namespace trireme {

struct LineParts {
  std::int64_t bytes = 0;  // of all parts so far

  // Adds a part of this many bytes and returns where it begins.
  std::int64_t add(std::int64_t part) {
    constexpr std::int64_t line = 64;
    const std::int64_t begin = bytes;
    bytes += round_up(part, line);
    return begin;
  }
};

}  // namespace trireme
