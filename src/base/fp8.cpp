// Conversion between float and 8-bit floating-point formats.
#include "base/fp8.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

std::uint8_t nan_bits(const Fp8Format& f) {
  return f.fnuz ? 0x80 : 0x7f;
}

}  // namespace

std::uint8_t to_fp8(Fp8Type type, float x) {
  const Fp8Format f = format_of(type);
  const std::uint8_t sign = std::signbit(x) ? 0x80 : 0;
  if (std::isinf(x) && f.has_infinity) return sign | 0x7c;
  if (!std::isfinite(x)) return nan_bits(f) | (f.fnuz ? 0 : sign);
  const float rounded = std::abs(Fp8Rounding(type)(x));
  if (rounded == 0) return f.fnuz ? 0 : sign;
  // Value in ulps of its exponent; subnormals use the lowest normal exponent.
  const int exponent = std::max(std::ilogb(rounded), f.lowest_exponent());
  const int units = static_cast<int>(std::ldexp(rounded, f.mantissa_bits - exponent));
  const int above = exponent - f.lowest_exponent();
  return static_cast<std::uint8_t>(sign | ((above << f.mantissa_bits) + units));
}

float from_fp8(Fp8Type type, std::uint8_t bits) {
  const Fp8Format f = format_of(type);
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  if (f.fnuz && bits == 0x80) return nan;
  const int magnitude = bits & 0x7f;
  const float sign = bits & 0x80 ? -1.f : 1.f;
  if (f.has_infinity && magnitude >= 0x7c)
    return magnitude == 0x7c ? sign * std::numeric_limits<float>::infinity() : nan;
  if (!f.fnuz && !f.has_infinity && magnitude == 0x7f) return nan;
  const int exponent = magnitude >> f.mantissa_bits;
  const int fraction = magnitude & ((1 << f.mantissa_bits) - 1);
  const int units = exponent > 0 ? fraction + (1 << f.mantissa_bits) : fraction;
  const int unit = (exponent > 0 ? exponent : 1) - f.bias - f.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(units), unit);
}

}  // namespace trireme
