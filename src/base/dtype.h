// Element types: names, sizes and the 16-bit floating-point storage types.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace trireme {

enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, u16, u8 };

// Size of one element in bytes.
constexpr int size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
    case DType::u16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

// Names used in configurations, in the style of safetensors: "f32", "bf16", ...
std::string_view name_of(DType dtype);

// Upper half of a float; conversion from float rounds to nearest even and keeps NaN.
struct bf16 {
  std::uint16_t bits;
  bf16() = default;
  constexpr explicit bf16(float value) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
    bits = (u & 0x7fffffff) > 0x7f800000
               ? static_cast<std::uint16_t>((u >> 16) | 0x40)
               : static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

// IEEE binary16 storage; arithmetic happens in float.
struct f16 {
  std::uint16_t bits;
  f16() = default;
  constexpr explicit f16(float value);
  constexpr explicit operator float() const;
};

constexpr f16::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fff) << 13;
  if ((bits & 0x7c00) == 0x7c00) return std::bit_cast<float>(sign | magnitude | 0x7f800000);
  // Scaling by 2^112 corrects the exponent bias and normalizes subnormals.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

constexpr f16::f16(float value) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (u >> 16) & 0x8000;
  const std::uint32_t magnitude = u & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    bits = static_cast<std::uint16_t>(sign | 0x7e00);
  } else if (magnitude >= 0x477ff000) {  // rounds to infinity
    bits = static_cast<std::uint16_t>(sign | 0x7c00);
  } else if (magnitude < 0x38800000) {  // subnormal: let the adder round
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
  } else {
    const std::uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    bits = static_cast<std::uint16_t>(sign | ((rounded - 0x38000000) >> 13));
  }
}

template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<f16> = DType::f16;

}  // namespace trireme
