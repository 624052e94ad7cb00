// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011): a pure function of key and
// counter, so that results do not depend on the rank or on the order of draws.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace trireme {

using Philox = std::array<std::uint32_t, 4>;

// Four independent 32-bit words for a 64-bit key and a 128-bit counter.
constexpr Philox philox(std::uint64_t key, Philox counter) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

// Uniform in [0, 1) with 53 bits.
inline double uniform(std::uint64_t key, std::uint64_t stream, std::uint64_t index) {
  const Philox words =
      philox(key, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                   static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)});
  return ((std::uint64_t{words[0]} << 21) ^ (words[1] >> 11)) * 0x1p-53;
}

// Standard normal by Box-Muller from the words of one counter.
inline double normal(std::uint64_t key, std::uint64_t stream, std::uint64_t index) {
  const Philox words =
      philox(key, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                   static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)});
  const double u = (words[0] + 1.0) * 0x1p-32;  // in (0, 1]
  const double v = words[1] * 0x1p-32;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

}  // namespace trireme
