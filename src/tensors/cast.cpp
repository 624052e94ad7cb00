// Casts element by element; uses memcpy because checkpoint data may be unaligned.
#include "tensors/cast.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

// double holds every floating-point type, float holds the 16-bit types.
template <class From, class To>
void cast_elements(const std::byte* src, std::byte* dst, std::int64_t count) {
  using Between =
      std::conditional_t<std::is_same_v<From, double> && std::is_same_v<To, double>, double, float>;
  for (std::int64_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, src + i * static_cast<std::int64_t>(sizeof from), sizeof from);
    const To to = static_cast<To>(static_cast<Between>(from));
    std::memcpy(dst + i * static_cast<std::int64_t>(sizeof to), &to, sizeof to);
  }
}

// Calls the body with a value of the C++ type.
template <class Body>
void with_floating(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f64:
      return body(double{});
    case DType::f32:
      return body(float{});
    case DType::bf16:
      return body(bf16{});
    case DType::f16:
      return body(f16{});
    case DType::i64:
    case DType::i32:
    case DType::u16:
    case DType::u8:
      break;
  }
  TRIREME_CHECK(!"a floating-point type");
}

bool is_floating(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

}  // namespace

bool can_cast(DType from, DType to) {
  return from == to || (is_floating(from) && is_floating(to));
}

void cast(DType from, const std::byte* src, DType to, std::byte* dst, std::int64_t count) {
  if (from == to) {
    std::memcpy(dst, src, static_cast<std::size_t>(count * size_of(from)));
    return;
  }
  with_floating(from, [&]<class From>(From) {
    with_floating(to, [&]<class To>(To) { cast_elements<From, To>(src, dst, count); });
  });
}

bool same_when_cast(const ElementSource& elements, const ElementSource& exact, std::int64_t count,
                    std::int64_t unit) {
  if (!can_cast(exact.dtype, elements.dtype)) return false;
  constexpr std::int64_t piece = std::int64_t{1} << 20;
  const std::int64_t step = std::max<std::int64_t>(1, piece / unit) * unit;
  const auto bytes = [](std::int64_t number, DType dtype) {
    return static_cast<std::size_t>(number * size_of(dtype));
  };
  const std::int64_t most = std::min(step, count);
  std::vector<std::byte> found(bytes(most, elements.dtype)), wanted(found.size()),
      uncast(bytes(most, exact.dtype));
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const std::int64_t end = std::min(count, begin + step);
    elements.read(begin, end, found.data());
    exact.read(begin, end, uncast.data());
    cast(exact.dtype, uncast.data(), elements.dtype, wanted.data(), end - begin);
    if (std::memcmp(found.data(), wanted.data(), bytes(end - begin, elements.dtype)) != 0)
      return false;
  }
  return true;
}

}  // namespace trireme
