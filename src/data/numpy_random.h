// numpy's legacy generator `RandomState`, draw for draw: Megatron's data order is defined by it.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace trireme {

// MT19937 with Knuth's seeding, which std::mt19937 has too, and numpy's way of turning words into
// bounded integers, fractions and permutations. Two equal sequences of calls give equal results.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : engine_(seed) {}

  std::uint32_t next32() { return static_cast<std::uint32_t>(engine_()); }

  // Uniform in [0, max]: words under the smallest covering mask 2^k - 1, redrawn while too large.
  std::uint64_t interval(std::uint64_t max);

  // random_sample(): uniform in [0, 1) with 53 bits.
  double random();

  // randint(low, high): uniform in [low, high).
  std::int64_t randint(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(interval(static_cast<std::uint64_t>(high - low - 1)));
  }

  // choice(len(probabilities), p=probabilities): an index.
  std::int64_t choice(std::span<const double> probabilities);

  // shuffle(values): Fisher-Yates from the end.
  template <class T>
  void shuffle(std::span<T> values);

 private:
  std::mt19937 engine_;
};

template <class T>
void NumpyRandom::shuffle(std::span<T> values) {
  // The partners do not depend on the values, so they are drawn a few steps ahead and prefetched:
  // a large array is otherwise one cache miss per element.
  constexpr std::size_t ahead = 16;
  std::array<std::size_t, ahead> partners;
  const std::size_t count = values.size();
  std::size_t drawn = count;  // partners for i in [drawn, count) are known
  for (std::size_t i = count; i-- > 1;) {
    while (drawn > 1 && i - (drawn - 1) < ahead) {
      --drawn;
      partners[drawn % ahead] = interval(drawn);
      __builtin_prefetch(&values[partners[drawn % ahead]], 1);
    }
    std::swap(values[i], values[partners[i % ahead]]);
  }
}

}  // namespace trireme
