// Compiled for AVX2, Trireme's minimum, so that the
// compiler vectorizes the loops.
#include "backend/cpu/fp8.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

constexpr std::int64_t task_elements = 1 << 15;

std::int64_t rows_per_task(std::int64_t cols) {
  return std::max<std::int64_t>(1, task_elements / cols);
}

template <class T>
float magnitude(T x) {
  return std::fabs(static_cast<float>(x));
}

// The maximum of `found` and the magnitudes of contiguous elements.
template <class T>
float largest_of(const T* x, std::int64_t count, float found) {
  for (std::int64_t i = 0; i < count; ++i) found = std::max(found, magnitude(x[i]));
  return found;
}

// Merges one row into the results of its band.
template <class T>
void add_row(float* largest, const T* x, const Fp8Tiles& s) {
  if (s.tile_cols == 1) {
    for (std::int64_t c = 0; c < s.cols; ++c) largest[c] = std::max(largest[c], magnitude(x[c]));
    return;
  }
  for (std::int64_t begin = 0; begin < s.cols; begin += s.tile_cols, ++largest)
    *largest = largest_of(x + begin, std::min(s.tile_cols, s.cols - begin), *largest);
}

// Handles bands of one large tile each, split into parts.
template <class T>
void largest_of_bands(float* largest, const T* x, const Fp8Tiles& s, std::int64_t part_rows) {
  const std::int64_t parts = (s.tile_rows + part_rows - 1) / part_rows;
  std::vector<float> found(static_cast<std::size_t>(s.bands() * parts));
  parallel_ranges(s.bands() * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % parts * part_rows;
      const std::int64_t rows = std::min(part_rows, s.tile_rows - first);
      found[i] = largest_of(x + (i / parts * s.tile_rows + first) * s.cols, rows * s.cols, 0);
    }
  });
  for (std::int64_t b = 0; b < s.bands(); ++b)
    largest[b] = *std::max_element(found.begin() + b * parts, found.begin() + (b + 1) * parts);
}

template <class Y, class T>
Y rounded(T x, float scale, const Fp8Rounding& round) {
  return static_cast<Y>(round(static_cast<float>(x) * scale) * (1 / scale));
}

template <class T, class Y>
void round_row(Y* y, const T* x, const float* largest, const Fp8Tiles& s) {
  const Fp8Rounding round(s.type);
  const float top = round.largest();
  const bool power = s.power_of_2_scales;
  if (s.tile_cols == 1) {
    for (std::int64_t c = 0; c < s.cols; ++c)
      y[c] = rounded<Y>(x[c], fp8_scale(largest[c], top, power), round);
    return;
  }
  for (std::int64_t begin = 0; begin < s.cols; begin += s.tile_cols, ++largest) {
    const std::int64_t end = std::min(begin + s.tile_cols, s.cols);
    const float scale = fp8_scale(*largest, top, power);
    for (std::int64_t c = begin; c < end; ++c) y[c] = rounded<Y>(x[c], scale, round);
  }
}

// Calls body(a group's tiles as a separate matrix, its first row, its first tile) for
// all groups that have rows.
template <class Body>
void for_each_group(const Fp8Tiles& s, const Body& body) {
  for (std::int64_t g = 0; g < s.groups; ++g) {
    const std::int64_t first = s.offsets[g], rows = s.offsets[g + 1] - first;
    if (rows == 0) continue;
    const Fp8Tiles group{
        rows, s.cols, rows, std::min(s.tile_rows, rows), s.tile_cols, s.type, s.power_of_2_scales};
    body(group, first, s.first_band(g) * s.tiles_of_row());
  }
}

}  // namespace

template <class T>
void fp8_largest(const Fp8Tiles& s, float* largest, const T* x) {
  if (s.groups > 0) {
    std::fill_n(largest, s.count(), 0.f);
    return for_each_group(s, [&](const Fp8Tiles& group, std::int64_t row, std::int64_t tile) {
      fp8_largest(group, largest + tile, x + row * s.cols);
    });
  }
  const std::int64_t tiles = s.tiles_of_row(), part_rows = rows_per_task(s.cols);
  if (tiles == 1 && s.run == s.tile_rows && s.tile_rows > part_rows)
    return largest_of_bands(largest, x, s, part_rows);
  const std::int64_t bands_per_task = std::max<std::int64_t>(1, part_rows / s.tile_rows);
  parallel_ranges(s.bands(), bands_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      float* const out = largest + b * tiles;
      std::fill_n(out, tiles, 0.f);
      const std::int64_t run = b / s.bands_of_run() * s.run;
      const std::int64_t first = run + b % s.bands_of_run() * s.tile_rows;
      const std::int64_t last = std::min(first + s.tile_rows, run + s.run);
      for (std::int64_t r = first; r < last; ++r) add_row(out, x + r * s.cols, s);
    }
  });
}

template <class T, class Y>
void fp8_round(const Fp8Tiles& s, const float* largest, Y* y, const T* x) {
  if (s.groups > 0) {
    return for_each_group(s, [&](const Fp8Tiles& group, std::int64_t row, std::int64_t tile) {
      fp8_round(group, largest + tile, y + row * s.cols, x + row * s.cols);
    });
  }
  parallel_ranges(s.rows, rows_per_task(s.cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      round_row(y + r * s.cols, x + r * s.cols, largest + s.band_of(r) * s.tiles_of_row(), s);
  });
}

template <class T>
void fp8_bytes(const Fp8Tiles& s, const float* largest, std::uint8_t* y, const T* x,
               std::int64_t chunk) {
  TRIREME_CHECK(s.groups == 0 && (chunk == 0 || s.rows % chunk == 0));
  const Fp8Rounding round(s.type);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const float* const of_row = largest + s.band_of(r) * s.tiles_of_row();
    for (std::int64_t c = 0; c < s.cols; ++c) {
      const float scale = fp8_scale(of_row[c / s.tile_cols], round.largest(), s.power_of_2_scales);
      const std::int64_t at =
          chunk == 0 ? r * s.cols + c : (r / chunk * s.cols + c) * chunk + r % chunk;
      y[at] = round.byte(static_cast<float>(x[r * s.cols + c]) * scale);
    }
  }
}

void fp8_inverse_scales(const Fp8Tiles& s, const float* largest, float* y, std::int64_t chunk,
                        std::int64_t ld) {
  TRIREME_CHECK(s.groups == 0 && (chunk == 0 || s.bands() % chunk == 0));
  const float top = Fp8Rounding(s.type).largest();
  const std::int64_t bands = s.bands(), tiles = s.tiles_of_row();
  std::fill_n(y, (chunk == 0 ? bands : bands / chunk * tiles) * ld, 0.f);
  for (std::int64_t b = 0; b < bands; ++b)
    for (std::int64_t t = 0; t < tiles; ++t)
      y[chunk == 0 ? b * ld + t : (b / chunk * tiles + t) * ld + b % chunk] =
          1 / fp8_scale(largest[b * tiles + t], top, s.power_of_2_scales);
}

template <class T>
void store_sums(T* y, const Acc<T>* x, const T* bias, std::int64_t rows, std::int64_t cols) {
  parallel_ranges(rows, rows_per_task(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        const Acc<T> sum = x[r * cols + c];
        y[r * cols + c] = static_cast<T>(bias ? sum + static_cast<Acc<T>>(bias[c]) : sum);
      }
  });
}

#define TRIREME_FP8(T)                                                                           \
  template void fp8_largest(const Fp8Tiles&, float*, const T*);                                  \
  template void fp8_round(const Fp8Tiles&, const float*, Acc<T>*, const T*);                     \
  template void fp8_bytes(const Fp8Tiles&, const float*, std::uint8_t*, const T*, std::int64_t); \
  template void store_sums(T*, const Acc<T>*, const T*, std::int64_t, std::int64_t)
TRIREME_FP8(float);
TRIREME_FP8(bf16);
TRIREME_FP8(f16);
TRIREME_FP8(double);
#undef TRIREME_FP8
template void fp8_round(const Fp8Tiles&, const float*, bf16*, const bf16*);
template void fp8_round(const Fp8Tiles&, const float*, f16*, const f16*);

}  // namespace trireme::cpu
