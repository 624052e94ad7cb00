// A permutation of [0, size) as a pure function of a key: no list of it is kept.
#pragma once

#include <bit>
#include <cstdint>

#include "base/random.h"

namespace trireme {

// A Feistel network over the next even power of two, applied until the result lies below `size`.
class KeyedPermutation {
 public:
  KeyedPermutation(std::uint64_t key, std::uint64_t size)
      : key_(key), size_(size), half_bits_((std::bit_width(size > 1 ? size - 1 : 1) + 1) / 2) {}

  // `index` lies below the size.
  std::uint64_t operator()(std::uint64_t index) const {
    do index = scrambled(index);
    while (index >= size_);
    return index;
  }

 private:
  std::uint64_t scrambled(std::uint64_t value) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (std::uint32_t round = 0; round < 6; ++round) {
      const Philox words = philox(key_, {static_cast<std::uint32_t>(right),
                                         static_cast<std::uint32_t>(right >> 32), round, 0});
      const std::uint64_t next = left ^ (words[0] & mask);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  std::uint64_t key_, size_;
  int half_bits_;
};

}  // namespace trireme
