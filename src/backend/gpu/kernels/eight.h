// Row access in groups of eight elements, which are 16 bytes of a 16-bit type. Rows that are not
// 16-byte aligned and the ends of rows are accessed element by element.
#pragma once

#include <cstdint>

#include "backend/gpu/language.h"

namespace trireme::gpu {

// Eight values in the type of arithmetic.
struct Eight {
  float v[8];
};

// Returns whether rows with stride `ld` can be read 16 bytes at a time.
// Null pointers are ignored.
template <class... T>
bool rows_are_aligned(std::int64_t ld, const T*... rows) {
  return (
      (reinterpret_cast<std::uintptr_t>(rows) % 16 == 0 && (!rows || ld * sizeof(T) % 16 == 0)) &&
      ...);
}

// Columns [first, first + 8) of a row, of which only those in [0, count) exist.
struct Columns {
  std::int64_t first, count;
  bool packed;  // all eight exist and are aligned

  GPU_FN bool has(int i) const { return packed || (first + i >= 0 && first + i < count); }
  GPU_FN bool any() const { return first > -8 && first < count; }
};
GPU_FN Columns columns_at(std::int64_t first, std::int64_t count, bool aligned) {
  return {first, count, aligned && first >= 0 && first + 8 <= count};
}

// Loads eight values; columns that do not exist give zero.
template <class T>
GPU_FN Eight load(const T* row, const Columns& at) {
  Eight result;
  if (at.packed) {
#pragma unroll
    for (int p = 0; p < 8 / pack_width<T>; ++p) {
      const auto pack = load_pack(row + at.first + p * pack_width<T>);
#pragma unroll
      for (int i = 0; i < pack_width<T>; ++i) result.v[p * pack_width<T> + i] = to_float(pack.v[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) result.v[i] = at.has(i) ? to_float(row[at.first + i]) : 0.0f;
  }
  return result;
}

template <class T>
GPU_FN void store(T* row, const Columns& at, const Eight& values) {
  if (at.packed) {
#pragma unroll
    for (int p = 0; p < 8 / pack_width<T>; ++p) {
      Pack<T, pack_width<T>> pack;
#pragma unroll
      for (int i = 0; i < pack_width<T>; ++i)
        pack.v[i] = from_float<T>(values.v[p * pack_width<T> + i]);
      store_pack(row + at.first + p * pack_width<T>, pack);
    }
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (at.has(i)) row[at.first + i] = from_float<T>(values.v[i]);
    }
  }
}

// Rounds to T: the values load() returns after store().
template <class T>
GPU_FN Eight rounded(Eight values) {
#pragma unroll
  for (int i = 0; i < 8; ++i) values.v[i] = to_float(from_float<T>(values.v[i]));
  return values;
}

GPU_FN Eight zeros() {
  return {{0, 0, 0, 0, 0, 0, 0, 0}};
}
// Applies f elementwise to one or more operands.
template <class F, class... Eights>
GPU_FN Eight each(const F& f, const Eights&... x) {
  Eight result;
#pragma unroll
  for (int i = 0; i < 8; ++i) result.v[i] = f(x.v[i]...);
  return result;
}
GPU_FN float sum_of(const Eight& x) {
  return ((x.v[0] + x.v[1]) + (x.v[2] + x.v[3])) + ((x.v[4] + x.v[5]) + (x.v[6] + x.v[7]));
}

// Calls body(columns) for the groups of eight, of an array of `count` elements, that are assigned
// to this thread of the grid.
template <class Body>
GPU_FN void for_eights(std::int64_t count, bool aligned, const Body& body) {
  for_each((count + 7) / 8, [&](std::int64_t i) { body(columns_at(8 * i, count, aligned)); });
}

}  // namespace trireme::gpu
