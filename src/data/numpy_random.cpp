// Bounded integers, fractions and choices of numpy's RandomState.
#include "data/numpy_random.h"

#include <bit>
#include <vector>

namespace trireme {

std::uint64_t NumpyRandom::interval(std::uint64_t max) {
  if (max == 0) return 0;
  const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(max);
  std::uint64_t value;
  do {
    if (max <= 0xffffffff) {
      value = next32() & mask;
    } else {
      const std::uint64_t high = next32();
      value = (high << 32 | next32()) & mask;
    }
  } while (value > max);
  return value;
}

double NumpyRandom::random() {
  const std::uint32_t a = next32() >> 5;
  const std::uint32_t b = next32() >> 6;
  return (a * 67108864.0 + b) / 9007199254740992.0;
}

std::int64_t NumpyRandom::choice(std::span<const double> probabilities) {
  std::vector<double> cdf;
  double sum = 0;
  for (const double p : probabilities) cdf.push_back(sum += p);
  const double u = random();
  std::int64_t index = 0;
  for (double& edge : cdf) {
    if (u < edge / sum) break;
    ++index;
  }
  return index;
}

}  // namespace trireme
