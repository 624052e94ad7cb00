// Elementary functions for parallel.numerics = "portable": from IEEE additions, multiplications and
// divisions in a fixed order, whereas a C library's depend on its version and the processor.
#pragma once

#include <cmath>
#include <cstdint>

namespace trireme::math {

// Whether exp, log and so on below are our own in this process, or the C library's.
bool is_portable();

// While it exists, the process computes with portable numerics or not. Throws (exit code 2) if it
// already computes the other way.
class Use {
 public:
  explicit Use(bool portable);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
};

// Within 2 units in the last place, for these arguments: exp anywhere; log above 0; sin and cos
// up to 2^26.
double own_exp(double x);
double own_log(double x);
double own_sin(double x);
double own_cos(double x);
// x^y for x >= 0; the relative error is |y log x| units in the last place.
double own_pow(double x, double y);

// Standard normal numbers from the words of normal() in base/random.h.
double own_normal(std::uint64_t key, std::uint64_t stream, std::uint64_t index);

// T: float or double. float results are rounded from double.
template <class T>
T exp(T x) {
  return is_portable() ? static_cast<T>(own_exp(x)) : std::exp(x);
}
template <class T>
T log(T x) {
  return is_portable() ? static_cast<T>(own_log(x)) : std::log(x);
}
inline double sin(double x) {
  return is_portable() ? own_sin(x) : std::sin(x);
}
inline double cos(double x) {
  return is_portable() ? own_cos(x) : std::cos(x);
}
// For whole numbers.
inline double log1p(double x) {
  return is_portable() ? own_log(1 + x) : std::log1p(x);
}
inline double pow(double x, double y) {
  return is_portable() ? own_pow(x, y) : std::pow(x, y);
}

}  // namespace trireme::math
