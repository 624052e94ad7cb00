// Conversions between f32 and bf16 with stochastic rounding.
#include "parallel/narrow.h"

#include "base/error.h"
#include "base/random.h"
#include "base/thread_pool.h"

namespace trireme {
namespace {

constexpr std::int64_t grain = 1 << 16;
constexpr int group = 4;  // elements that share one word of random bits

// 64 random bits of a counter: the finaliser of SplitMix64 (Steele et al. 2014).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// to[i] = value(i), rounded.
template <class Value>
void store_rounded(bf16* to, std::int64_t count, std::uint64_t key, std::int64_t first,
                   const Value& value) {
  TRIREME_CHECK(first % group == 0);
  parallel_ranges(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += group) {
      const auto counter = static_cast<std::uint64_t>((first + i) / group);
      std::uint64_t bits = mix(key + counter * 0x9e3779b97f4a7c15);
      for (std::int64_t j = i; j < i + group && j < end; ++j, bits >>= 16)
        to[j] = round_stochastically(value(j), static_cast<std::uint16_t>(bits));
    }
  });
}

}  // namespace

std::uint64_t rounding_key(std::uint64_t seed, std::uint64_t step, std::uint32_t stream,
                           std::uint32_t use) {
  const Philox words = philox(seed, {static_cast<std::uint32_t>(step),
                                     static_cast<std::uint32_t>(step >> 32), stream, use});
  return std::uint64_t{words[0]} << 32 | words[1];
}

bf16 round_stochastically(float x, std::uint16_t bits) {
  const auto all = std::bit_cast<std::uint32_t>(x);
  bf16 result;
  const bool nan = (all & 0x7fffffff) > 0x7f800000;
  result.bits = static_cast<std::uint16_t>(nan ? (all >> 16) | 0x40 : (all + bits) >> 16);
  return result;
}

void widen(float* to, const bf16* from, std::int64_t count) {
  parallel_ranges(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(from[i]);
  });
}

void narrow(bf16* to, const float* from, std::int64_t count, std::uint64_t key,
            std::int64_t first) {
  store_rounded(to, count, key, first, [&](std::int64_t i) { return from[i]; });
}

void add_narrow(bf16* sums, const float* summands, std::int64_t count, std::uint64_t key,
                bool overwrite) {
  store_rounded(sums, count, key, 0, [&](std::int64_t i) {
    return overwrite ? summands[i] : static_cast<float>(sums[i]) + summands[i];
  });
}

}  // namespace trireme
