// Computes statistics in one pass in double precision.
#include "tensors/stats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace trireme {
namespace {

template <class T>
double to_double(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<double>(static_cast<float>(value));
  }
}

}  // namespace

template <class T>
void TensorStats::add_elements(const std::byte* data, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, data + i * static_cast<std::int64_t>(sizeof element), sizeof element);
    const double value = to_double(element);
    if (std::isnan(value)) {
      ++nans_;
    } else if (std::isinf(value)) {
      ++infinities_;
    } else {
      min_ = finite_ == 0 ? value : std::min(min_, value);
      max_ = finite_ == 0 ? value : std::max(max_, value);
      sum_ += value;
      ++finite_;
    }
  }
}

void TensorStats::add(DType dtype, const std::byte* data, std::int64_t count) {
  switch (dtype) {
    case DType::f64:
      return add_elements<double>(data, count);
    case DType::f32:
      return add_elements<float>(data, count);
    case DType::bf16:
      return add_elements<bf16>(data, count);
    case DType::f16:
      return add_elements<f16>(data, count);
    case DType::i64:
      return add_elements<std::int64_t>(data, count);
    case DType::i32:
      return add_elements<std::int32_t>(data, count);
    case DType::u16:
      return add_elements<std::uint16_t>(data, count);
    case DType::u8:
      return add_elements<std::uint8_t>(data, count);
  }
}

}  // namespace trireme
