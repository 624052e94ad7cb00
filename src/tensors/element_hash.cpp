// Mixes with SplitMix64's finalizer, which is a bijection on 64 bits.
#include "tensors/element_hash.h"

#include <cstring>

#include "base/error.h"
#include "base/hash.h"

namespace trireme {
namespace {

std::uint64_t mix(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

template <class Bits>
std::uint64_t sum(std::uint64_t key, std::int64_t first, const std::byte* elements,
                  std::int64_t count) {
  constexpr std::uint64_t step = 0x9e3779b97f4a7c15u;
  std::uint64_t place = key + static_cast<std::uint64_t>(first) * step, total = 0;
  for (std::int64_t i = 0; i < count; ++i, place += step) {
    Bits bits;
    std::memcpy(&bits, elements + i * static_cast<std::int64_t>(sizeof bits), sizeof bits);
    total += mix(place ^ bits);
  }
  return total;
}

}  // namespace

std::uint64_t element_key(std::string_view tensor) {
  return hash64(tensor);
}

std::uint64_t element_hash(std::uint64_t key, std::int64_t first, DType dtype,
                           const std::byte* elements, std::int64_t count) {
  switch (size_of(dtype)) {
    case 8:
      return sum<std::uint64_t>(key, first, elements, count);
    case 4:
      return sum<std::uint32_t>(key, first, elements, count);
    case 2:
      return sum<std::uint16_t>(key, first, elements, count);
    case 1:
      return sum<std::uint8_t>(key, first, elements, count);
    default:
      TRIREME_CHECK(!"a size of elements");
  }
}

}  // namespace trireme
