// Argument reductions by constants in parts, and series; compiled without fused multiply-adds.
#include "base/portable_math.h"

#include <atomic>
#include <limits>
#include <mutex>

#include "base/error.h"
#include "base/random.h"

namespace trireme::math {
namespace {

std::atomic<bool> portable{false};
std::mutex guard;
int users = 0;

constexpr double infinity = std::numeric_limits<double>::infinity();
// The first part of each constant has so few bits that its product with a whole number is exact.
constexpr double ln2_parts[] = {0x1.62e42fefa0000p-1, 0x1.cf79abc9e3b3ap-40};
constexpr double half_pi_parts[] = {0x1.921fb50000000p+0, 0x1.110b460000000p-26,
                                    0x1.1a62633145c07p-54};

// Sums a series from its last term: 1 + f(1) (1 + f(2) (1 + ...)), where f(i) is the ratio of
// terms.
template <class Ratio>
double series(int terms, const Ratio& ratio) {
  double sum = 1;
  for (int i = terms; i > 0; --i) sum = 1 + ratio(i) * sum;
  return sum;
}

// sin or cos of x + quarter * pi / 2.
double wave(double x, int quarter) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  const double turns = std::floor(x * 0x1.45f306dc9c883p-1 + 0.5);  // quarters
  double r = x;
  for (const double part : half_pi_parts) r -= turns * part;
  const int of_four = static_cast<int>(std::fmod(turns, 4.0)) + quarter + 4;
  const double square = r * r;
  const double value = of_four % 2 == 0
                           ? r * series(9, [&](int i) { return -square / ((2 * i) * (2 * i + 1)); })
                           : series(9, [&](int i) { return -square / ((2 * i - 1) * (2 * i)); });
  return of_four % 4 < 2 ? value : -value;
}

}  // namespace

bool is_portable() {
  return portable.load(std::memory_order_relaxed);
}

Use::Use(bool wanted) {
  const std::lock_guard lock(guard);
  if (users > 0 && wanted != portable) {
    fail_input(
        "this process {} parallel.numerics = \"portable\" already, which holds for all of its runs: "
        "end them first, or use another process",
        portable ? "computes with" : "computes without");
  }
  portable = wanted;
  ++users;
}

Use::~Use() {
  const std::lock_guard lock(guard);
  if (--users == 0) portable = false;
}

double own_exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 710) return infinity;
  if (x < -746) return 0;
  const double n = std::floor(x * 0x1.71547652b82fep+0 + 0.5);
  const double r = (x - n * ln2_parts[0]) - n * ln2_parts[1];
  // The terms after x are summed first, so that the last addition has nearly all of the rounding.
  const double rest = r * r * 0.5 * series(12, [&](int i) { return r / (i + 2); });
  return std::ldexp(1 + (r + rest), static_cast<int>(n));
}

double own_log(double x) {
  if (std::isnan(x) || x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -infinity;
  if (std::isinf(x)) return x;
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // in [0.5, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  // log m = 2 atanh s = f - s (f - 2 s^2 (1/3 + s^2/5 + ...)) with f = m - 1, which is exact.
  const double f = m - 1, s = f / (2 + f), square = s * s;
  double sum = 0;
  for (int i = 12; i > 0; --i) sum = square * (1.0 / (2 * i + 1) + sum);
  const double tail = s * (f - 2 * sum) - exponent * ln2_parts[1];
  return exponent * ln2_parts[0] + (f - tail);
}

double own_sin(double x) {
  return wave(x, 0);
}

double own_cos(double x) {
  return wave(x, 1);
}

double own_pow(double x, double y) {
  if (y == 0) return 1;
  if (x == 0) return y > 0 ? 0 : infinity;
  return own_exp(y * own_log(x));
}

double own_normal(std::uint64_t key, std::uint64_t stream, std::uint64_t index) {
  const Philox words =
      philox(key, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                   static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)});
  const double u = (words[0] + 1.0) * 0x1p-32;  // in (0, 1]
  return std::sqrt(-2.0 * own_log(u)) * own_cos(6.283185307179586 * (words[1] * 0x1p-32));
}

}  // namespace trireme::math
