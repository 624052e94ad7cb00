// Reduction kernels for every dtype, as loops that the compiler vectorizes.
#include "comm/reduce.h"

#include <cstring>
#include <type_traits>

namespace trireme {
namespace {

template <class T>
using Accumulator = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

template <class T>
void load(void* accumulator, const void* src, std::int64_t n) {
  auto* a = static_cast<Accumulator<T>*>(accumulator);
  const T* x = static_cast<const T*>(src);
  for (std::int64_t i = 0; i < n; ++i) a[i] = static_cast<Accumulator<T>>(x[i]);
}

// Integers wrap around: the sum is exact modulo 2^bits, and associative.
template <class T>
void add(void* accumulator, const void* src, std::int64_t n) {
  auto* a = static_cast<Accumulator<T>*>(accumulator);
  const T* x = static_cast<const T*>(src);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      a[i] = static_cast<T>(static_cast<U>(static_cast<U>(a[i]) + static_cast<U>(x[i])));
    } else {
      a[i] += static_cast<Accumulator<T>>(x[i]);
    }
  }
}

template <class T>
void maximum(void* accumulator, const void* src, std::int64_t n) {
  auto* a = static_cast<Accumulator<T>*>(accumulator);
  const T* x = static_cast<const T*>(src);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<Accumulator<T>>(x[i]);
    a[i] = value > a[i] || value != value ? value : a[i];  // propagates NaN
  }
}

template <class T>
void store(void* dst, const void* accumulator, std::int64_t n) {
  T* y = static_cast<T*>(dst);
  const auto* a = static_cast<const Accumulator<T>*>(accumulator);
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(a[i]);
}

template <class T>
const ReduceKernels& kernels_for(Reduction reduction) {
  static constexpr int bytes = sizeof(Accumulator<T>);
  static constexpr ReduceKernels sum{bytes, load<T>, add<T>, store<T>};
  static constexpr ReduceKernels max{bytes, load<T>, maximum<T>, store<T>};
  return reduction == Reduction::max ? max : sum;
}

}  // namespace

const ReduceKernels& reduce_kernels(DType dtype, Reduction reduction) {
  switch (dtype) {
    case DType::f64:
      return kernels_for<double>(reduction);
    case DType::f32:
      return kernels_for<float>(reduction);
    case DType::bf16:
      return kernels_for<bf16>(reduction);
    case DType::f16:
      return kernels_for<f16>(reduction);
    case DType::i64:
      return kernels_for<std::int64_t>(reduction);
    case DType::i32:
      return kernels_for<std::int32_t>(reduction);
    case DType::u16:
      return kernels_for<std::uint16_t>(reduction);
    case DType::u8:
      break;
  }
  return kernels_for<std::uint8_t>(reduction);
}

}  // namespace trireme
