// The four 8-bit floating-point formats and rounding to them.
//
// e4m3 and e5m2 are the OCP formats (Open Compute Project, "8-bit Floating Point Specification",
// 2023); the FNUZ variants (finite, no negative zero) are used by the matrix units of gfx940 to
// gfx942. Rounding is to nearest, ties to even, and saturating: finite values that are too large
// become the largest finite number.
#pragma once

#include <bit>
#include <cstdint>

namespace trireme {

enum class Fp8Type : std::uint8_t { e4m3, e5m2, e4m3_fnuz, e5m2_fnuz };

// Scaling granularity: one scale per tensor (of a matrix or a sequence), or one per block.
#define TRIREME_FP8_RECIPES(X) X(none, "none") X(tensorwise, "tensorwise") X(blockwise, "blockwise")
#define TRIREME_FP8_RECIPE(value, name) value,
enum class Fp8Recipe : std::uint8_t { TRIREME_FP8_RECIPES(TRIREME_FP8_RECIPE) };
#undef TRIREME_FP8_RECIPE

struct Fp8Format {
  int mantissa_bits;
  int bias;  // of the exponent
  float largest;
  bool fnuz;          // the bit pattern of negative zero is the only NaN
  bool has_infinity;  // the highest exponent encodes infinity and NaN

  constexpr int lowest_exponent() const { return 1 - bias; }  // of normal numbers
};

constexpr Fp8Format format_of(Fp8Type type) {
  switch (type) {
    case Fp8Type::e4m3:
      return {3, 7, 448, false, false};
    case Fp8Type::e5m2:
      return {2, 15, 57344, false, true};
    case Fp8Type::e4m3_fnuz:
      return {3, 8, 240, true, false};
    case Fp8Type::e5m2_fnuz:
      break;
  }
  return {2, 16, 57344, true, false};
}

// Rounds to a format; constructed once outside of loops.
class Fp8Rounding {
 public:
  constexpr explicit Fp8Rounding(Fp8Type type)
      : largest_(format_of(type).largest),
        lowest_(static_cast<std::uint32_t>(127 + format_of(type).lowest_exponent()) << 23),
        shift_(1.5f * static_cast<float>(1 << (23 - format_of(type).mantissa_bits))),
        bits_(format_of(type).mantissa_bits),
        fnuz_(format_of(type).fnuz) {}

  constexpr float largest() const { return largest_; }

  // The nearest number of the format. NaN and infinity become NaN.
  [[gnu::always_inline]] constexpr float operator()(float x) const {
    const float high = x < largest_ ? x : largest_;
    const float near = high > -largest_ ? high : -largest_;
    // Adding and subtracting 1.5 x 2^23 ulps rounds to whole ulps.
    const std::uint32_t exponent = std::bit_cast<std::uint32_t>(near) & exponents;
    const float power = std::bit_cast<float>(exponent > lowest_ ? exponent : lowest_);
    const float shift = power * shift_;
    const float rounded = (near + shift) - shift;
    const bool finite = (std::bit_cast<std::uint32_t>(x) & exponents) != exponents;
    return finite ? rounded : std::bit_cast<float>(nan);
  }

  // The encoding of that number.
  [[gnu::always_inline]] constexpr std::uint8_t byte(float x) const {
    const std::uint32_t number = std::bit_cast<std::uint32_t>((*this)(x));
    const std::uint32_t magnitude = number & 0x7fffffff, sign = number >> 24 & 0x80;
    if (magnitude > exponents) return fnuz_ ? 0x80 : 0x7f;
    if (magnitude == 0 && fnuz_) return 0;
    const std::uint32_t one = 1u << bits_;  // in ulps of its exponent
    if (magnitude >= lowest_)
      return static_cast<std::uint8_t>(sign | (((magnitude - lowest_) >> (23 - bits_)) + one));
    const float units = std::bit_cast<float>(magnitude) / std::bit_cast<float>(lowest_);
    return static_cast<std::uint8_t>(sign |
                                     static_cast<std::uint32_t>(units * static_cast<float>(one)));
  }

 private:
  static constexpr std::uint32_t exponents = 0x7f800000, nan = 0x7fc00000;

  float largest_;
  std::uint32_t lowest_;  // the bits of the smallest normal number
  float shift_;
  int bits_;  // of the mantissa
  bool fnuz_;
};

// Encodes the nearest number. NaN gives NaN; infinity gives infinity if it exists, else NaN.
std::uint8_t to_fp8(Fp8Type type, float x);
float from_fp8(Fp8Type type, std::uint8_t bits);

// Scale for values of magnitude up to `amax` before rounding, which maps amax to `largest`; with
// power_of_2 rounded down to a power of two. Returns 1 if amax is 0 or not finite.
[[gnu::always_inline]] constexpr float fp8_scale(float amax, float largest, bool power_of_2) {
  constexpr float most = 0x1p126f;  // its inverse is a normal number
  const bool usable = amax > 0 && amax <= 0x1.fffffep127f;
  const float exact = usable ? largest / amax : 1;
  const float scale = exact < most ? exact : most;
  return power_of_2 ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) & 0x7f800000)
                    : scale;
}

}  // namespace trireme
