// Skips bitwise equal blocks; compares the remaining elements in double precision.
#include "tensors/difference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tensors/cast.h"

namespace trireme {
namespace {

constexpr std::int64_t block = 1024;
using Values = std::array<double, block>;

template <class T>
void widen_integers(const std::byte* src, std::int64_t count, double* dst) {
  for (std::int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, src + i * static_cast<std::int64_t>(sizeof value), sizeof value);
    dst[i] = static_cast<double>(value);
  }
}

// Exact, except for integers of more than 53 bits.
void widen(DType dtype, const std::byte* src, std::int64_t count, double* dst) {
  switch (dtype) {
    case DType::i64:
      return widen_integers<std::int64_t>(src, count, dst);
    case DType::i32:
      return widen_integers<std::int32_t>(src, count, dst);
    case DType::u16:
      return widen_integers<std::uint16_t>(src, count, dst);
    case DType::u8:
      return widen_integers<std::uint8_t>(src, count, dst);
    case DType::f64:
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return cast(dtype, src, DType::f64, reinterpret_cast<std::byte*>(dst), count);
  }
}

bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same_bytes(const std::byte* a, const std::byte* b, std::int64_t bytes) {
  return std::memcmp(a, b, static_cast<std::size_t>(bytes)) == 0;
}

}  // namespace

bool TensorDifference::comparable(DType a, DType b) {
  return can_cast(a, b);
}

void TensorDifference::add(const std::byte* a, const std::byte* b, std::int64_t count) {
  const std::int64_t wide_a = size_of(a_), wide_b = size_of(b_);
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t size = std::min(block, count - begin);
    const std::byte *from_a = a + begin * wide_a, *from_b = b + begin * wide_b;
    if (a_ != b_ || !same_bytes(from_a, from_b, size * wide_a)) compare(from_a, from_b, size);
    if (can_be_rounded() && rounded_) check_rounding(from_a, from_b, size);
    elements_ += size;
  }
}

void TensorDifference::compare(const std::byte* a, const std::byte* b, std::int64_t count) {
  Values values_a, values_b;
  widen(a_, a, count, values_a.data());
  widen(b_, b, count, values_b.data());
  const std::int64_t element = size_of(a_);
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = values_a[static_cast<std::size_t>(i)],
                 y = values_b[static_cast<std::size_t>(i)];
    const bool equal =
        a_ == b_ ? same_bytes(a + i * element, b + i * element, element) : same_number(x, y);
    if (!equal) note({elements_ + i, x, y});
  }
}

void TensorDifference::note(const Place& place) {
  if (differing_++ == 0) first_ = place;
  if (!std::isfinite(place.a) || !std::isfinite(place.b)) {
    if (not_finite_++ == 0) largest_ = place;
    return;
  }
  const double difference = std::abs(place.a - place.b);
  const double larger = std::max(std::abs(place.a), std::abs(place.b));
  if (not_finite_ == 0 && (largest_.element < 0 || difference > largest_absolute_))
    largest_ = place;
  largest_absolute_ = std::max(largest_absolute_, difference);
  if (larger > 0) largest_relative_ = std::max(largest_relative_, difference / larger);
}

void TensorDifference::check_rounding(const std::byte* a, const std::byte* b, std::int64_t count) {
  const bool a_is_wider = size_of(a_) > size_of(b_);
  const DType wide = a_is_wider ? a_ : b_, narrow = a_is_wider ? b_ : a_;
  cast_.resize(static_cast<std::size_t>(block * size_of(narrow)));
  cast(wide, a_is_wider ? a : b, narrow, cast_.data(), count);
  rounded_ = same_bytes(cast_.data(), a_is_wider ? b : a, count * size_of(narrow));
}

}  // namespace trireme
