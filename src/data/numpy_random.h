// numpy's legacy generator `RandomState`, draw for draw: Megatron's data order is defined by it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace trireme {

// The words of std::mt19937 (Matsumoto and Nishimura 1998), made 624 at a time in loops that
// compilers vectorize: an order of hundreds of millions of samples takes that many words.
class MersenneTwister {
 public:
  explicit MersenneTwister(std::uint32_t seed);

  std::uint32_t next() {
    if (used_ == size) refill();
    return words_[used_++];
  }

 private:
  static constexpr std::size_t size = 624;

  void refill();

  std::array<std::uint32_t, size> state_, words_;
  std::size_t used_ = size;  // of words_
};

// Numpy's way of turning words into bounded integers, fractions and permutations. Two equal
// sequences of calls give equal results.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : engine_(seed) {}

  std::uint32_t next32() { return engine_.next(); }

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
  // interval(max), interval(max - 1), ...; at most `max` of them.
  void falling_intervals(std::uint64_t max, std::span<std::uint64_t> out);

  MersenneTwister engine_;
};

template <class T>
void NumpyRandom::shuffle(std::span<T> values) {
  // The partners do not depend on the values, so some are drawn ahead and prefetched: a large array
  // is otherwise one cache miss per element.
  std::array<std::uint64_t, 64> partners;
  for (std::size_t last = values.size(); last-- > 1;) {
    const std::size_t count = std::min(partners.size(), last);
    falling_intervals(last, std::span(partners).first(count));
    for (std::size_t k = 0; k < count; ++k) __builtin_prefetch(&values[partners[k]], 1);
    for (std::size_t k = 0; k < count; ++k) std::swap(values[last - k], values[partners[k]]);
    last -= count - 1;
  }
}

}  // namespace trireme
