// Conversions between f32 and 64-bit fixed point.
#include "parallel/fixed_point.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/thread_pool.h"

namespace trireme {
namespace {

constexpr std::int64_t grain = 1 << 16;

double units_per_one(double loss_scale) {
  return std::ldexp(1.0, fixed_point_bits) / loss_scale;
}

// To the nearest integer, ties to even. Adding 2^52 leaves no bits for a fraction; what is larger
// has none.
double rounded(double x) {
  constexpr double no_fraction = 0x1p52;
  const double shift = std::copysign(no_fraction, x);
  return std::fabs(x) < no_fraction ? (x + shift) - shift : x;
}

template <bool overwrite>
bool add_range(std::int64_t* accumulator, const float* gradient, std::int64_t count, double units,
               double limit) {
  bool bad = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const double scaled = static_cast<double>(gradient[i]) * units;
    const bool fits = std::fabs(scaled) < limit;  // false for NaN too
    const auto fixed = static_cast<std::int64_t>(fits ? rounded(scaled) : 0.0);
    bad |= !fits;
    accumulator[i] = overwrite ? fixed : accumulator[i] + fixed;
  }
  return !bad;
}

}  // namespace

bool add_fixed_point(std::int64_t* accumulator, const float* gradient, std::int64_t count,
                     double loss_scale, double limit, bool overwrite) {
  std::atomic<bool> good{true};
  const double units = units_per_one(loss_scale);
  parallel_ranges(count, grain, [&](std::int64_t begin, std::int64_t end) {
    const bool fits =
        overwrite
            ? add_range<true>(accumulator + begin, gradient + begin, end - begin, units, limit)
            : add_range<false>(accumulator + begin, gradient + begin, end - begin, units, limit);
    if (!fits) good = false;
  });
  return good;
}

double fixed_point_limit(std::int64_t summands) {
  return std::ldexp(1.0, 62) / static_cast<double>(summands < 1 ? 1 : summands);
}

void fixed_point_to_float(std::int64_t* sums, std::int64_t count, double loss_scale) {
  const double unit = 1 / units_per_one(loss_scale);
  auto* bytes = reinterpret_cast<unsigned char*>(sums);
  // Each block at its own place, in parallel; then the blocks move together.
  const auto convert = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t sum;
      std::memcpy(&sum, bytes + 8 * i, 8);
      const float value = static_cast<float>(static_cast<double>(sum) * unit);
      std::memcpy(bytes + 8 * begin + 4 * (i - begin), &value, 4);
    }
  };
  parallel_ranges(count, grain, convert);
  for (std::int64_t begin = grain; begin < count; begin += grain) {
    const std::int64_t values = std::min(grain, count - begin);
    std::memmove(bytes + 4 * begin, bytes + 8 * begin, static_cast<std::size_t>(4 * values));
  }
}

}  // namespace trireme
