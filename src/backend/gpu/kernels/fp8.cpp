// Rounding to fp8 with one scale per tile: the largest magnitudes (amax), the rounded numbers or
// their bytes as operands of a product, and the storing of its sums.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

GPU_FN float larger(float a, float b) {
  return b > a ? b : a;  // a where b is NaN
}
GPU_FN float magnitude(float x) {
  return x < 0 ? -x : x;
}
template <class T>
GPU_FN float largest_of(const T* row, const Columns& at) {
  const Eight values = load(row, at);
  float found = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) found = larger(found, magnitude(values.v[i]));
  return found;
}

// Returns the last of `count` groups for which `begins` is true; it is true for the first.
template <class Begins>
GPU_FN std::int64_t last_group(std::int64_t count, const Begins& begins) {
  std::int64_t low = 0, high = count;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    if (begins(middle))
      low = middle;
    else
      high = middle;
  }
  return low;
}

// Rows of a band; empty for unused bands.
struct Band {
  std::int64_t first, end;
};
GPU_FN Band band_at(const Fp8Tiles& s, std::int64_t band) {
  std::int64_t first, run_end;
  if (s.groups > 0) {
    const std::int64_t group =
        last_group(s.groups, [&](std::int64_t g) { return s.first_band(g) <= band; });
    first = s.offsets[group] + (band - s.first_band(group)) * s.tile_rows;
    run_end = s.offsets[group + 1];
  } else {
    const std::int64_t each = s.bands_of_run(), run = band / each;
    first = run * s.run + (band - run * each) * s.tile_rows;
    run_end = (run + 1) * s.run;
  }
  const std::int64_t end = first + s.tile_rows;
  return {first, end < run_end ? end : run_end};
}
// Band of a row, or -1 if the row belongs to no group.
GPU_FN std::int64_t band_of_row(const Fp8Tiles& s, std::int64_t row) {
  if (s.groups == 0) return s.band_of(row);
  if (row >= s.offsets[s.groups]) return -1;
  const std::int64_t group =
      last_group(s.groups, [&](std::int64_t g) { return s.offsets[g] <= row; });
  return s.first_band(group) + (row - s.offsets[group]) / s.tile_rows;
}

// --- the largest magnitudes ---
// A block has 16 lines of 16 threads; each thread has eight columns, each line 128.
constexpr int threads = 256, across = 16, lines = threads / across;
constexpr int patch_columns = 8 * across, patch_rows = 8 * lines;

std::int64_t patches_of(std::int64_t columns) {
  return (columns + patch_columns - 1) / patch_columns;
}

// Tiles of one row by 128 columns: one tile per line.
template <class T>
GPU_KERNEL(threads)
largest_of_rows_kernel(float* largest, const T* x, const Fp8Tiles s, bool aligned) {
  const int line = static_cast<int>(thread_index()) / across;
  const int place = static_cast<int>(thread_index()) % across;
  const std::int64_t tiles = s.tiles_of_row(), bands = s.bands();
  const std::int64_t band = block_index().x / tiles * lines + line, tile = block_index().x % tiles;
  float found = 0;
  if (band < bands) {
    const Band rows = band_at(s, band);
    const Columns at = columns_at(tile * patch_columns + 8 * place, s.cols, aligned);
    if (rows.first < rows.end) found = largest_of(x + rows.first * s.cols, at);
  }
#pragma unroll
  for (int mask = across / 2; mask > 0; mask >>= 1) found = larger(found, shuffle_xor(found, mask));
  if (place == 0 && band < bands) largest[band * tiles + tile] = found;
}

// Tiles of one column: one tile per thread.
template <class T>
GPU_KERNEL(threads)
largest_of_columns_kernel(float* largest, const T* x, const Fp8Tiles s) {
  const std::int64_t blocks = (s.cols + threads - 1) / threads;
  const std::int64_t band = block_index().x / blocks;
  const std::int64_t column = block_index().x % blocks * threads + thread_index();
  if (column >= s.cols) return;
  const Band rows = band_at(s, band);
  float found = 0;
  for (std::int64_t row = rows.first; row < rows.end; ++row)
    found = larger(found, magnitude(to_float(x[row * s.cols + column])));
  largest[band * s.cols + column] = found;
}

// Tiles of any number of rows, and of 128 or all columns: one block per patch of a tile.
// Magnitudes compare like their bits, and the maximum is the same in any order.
// `largest` must be zeroed before.
template <class T>
GPU_KERNEL(threads)
largest_of_patches_kernel(float* largest, const T* x, const Fp8Tiles s, std::int64_t down,
                          bool aligned) {
  const int line = static_cast<int>(thread_index()) / across;
  const int place = static_cast<int>(thread_index()) % across;
  const std::int64_t wide = (s.cols + patch_columns - 1) / patch_columns;
  const std::int64_t index = block_index().x / wide, patch = block_index().x % wide;
  const std::int64_t band = index / down;
  const Band rows = band_at(s, band);
  const std::int64_t first = rows.first + index % down * patch_rows, end = first + patch_rows;
  const Columns at = columns_at(patch * patch_columns + 8 * place, s.cols, aligned);
  float found = 0;
  for (std::int64_t row = first + line; row < end && row < rows.end; row += lines)
    found = larger(found, largest_of(x + row * s.cols, at));
  found = block_max<threads>(found);
  if (thread_index() != 0 || found == 0) return;
  float* const to = largest + band * s.tiles_of_row() + patch * patch_columns / s.tile_cols;
  atomic_max(reinterpret_cast<std::uint32_t*>(to), std::bit_cast<std::uint32_t>(found));
}

template <class T>
void fp8_largest(Queue& queue, const Fp8Tiles& s, float* largest, const T* x) {
  const bool aligned = rows_are_aligned(s.cols, x);
  const std::int64_t bands = s.bands();
  if (s.tile_cols == 1) {
    const std::int64_t blocks = (s.cols + threads - 1) / threads;
    launch(queue, one_block_each(bands * blocks, threads), largest_of_columns_kernel<T>, largest, x,
           s);
  } else if (s.tile_rows == 1 && s.tile_cols == patch_columns) {
    const std::int64_t blocks = (bands + lines - 1) / lines * s.tiles_of_row();
    launch(queue, one_block_each(blocks, threads), largest_of_rows_kernel<T>, largest, x, s,
           aligned);
  } else {
    const std::int64_t down = (s.tile_rows + patch_rows - 1) / patch_rows;
    queue.fill(largest, 0, s.count() * static_cast<std::int64_t>(sizeof(float)));
    launch(queue, one_block_each(bands * down * patches_of(s.cols), threads),
           largest_of_patches_kernel<T>, largest, x, s, down, aligned);
  }
}

// --- rounding ---
constexpr int row_threads = 128;

GPU_FN float rounded(float x, float scale, const Fp8Rounding& round) {
  return round(x * scale) * (1 / scale);
}

// One block per row.
template <class T, class Y>
GPU_KERNEL(row_threads)
fp8_round_kernel(Y* y, const T* x, const float* largest, const Fp8Tiles s, bool aligned) {
  const std::int64_t row = block_index().x, band = band_of_row(s, row);
  if (band < 0) return;
  const Fp8Rounding round(s.type);
  const float* const of_band = largest + band * s.tiles_of_row();
  const auto scale_of = [&](std::int64_t tile) {
    return fp8_scale(of_band[tile], round.largest(), s.power_of_2_scales);
  };
  for (std::int64_t c = 8 * thread_index(); c < s.cols; c += 8 * row_threads) {
    const Columns at = columns_at(c, s.cols, aligned);
    Eight values = load(x + row * s.cols, at);
    if (s.tile_cols == 1) {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (at.has(i)) values.v[i] = rounded(values.v[i], scale_of(c + i), round);
    } else {
      const float scale = scale_of(c / s.tile_cols);
      values = each([&](float v) { return rounded(v, scale, round); }, values);
    }
    store(y + row * s.cols, at, values);
  }
}

template <class T, class Y>
void fp8_round(Queue& queue, const Fp8Tiles& s, const float* largest, Y* y, const T* x) {
  launch(queue, one_block_each(s.rows, row_threads), fp8_round_kernel<T, Y>, y, x, largest, s,
         rows_are_aligned(s.cols, x) && rows_are_aligned(s.cols, y));
}

// --- bytes ---
// One block per row.
template <class T>
GPU_KERNEL(row_threads)
fp8_bytes_kernel(std::uint8_t* y, const T* x, const float* largest, const Fp8Tiles s,
                 bool aligned) {
  const std::int64_t row = block_index().x;
  const Fp8Rounding round(s.type);
  const float* const of_band = largest + s.band_of(row) * s.tiles_of_row();
  const auto scale_of = [&](std::int64_t tile) {
    return fp8_scale(of_band[tile], round.largest(), s.power_of_2_scales);
  };
  for (std::int64_t c = 8 * thread_index(); c < s.cols; c += 8 * row_threads) {
    const Columns at = columns_at(c, s.cols, aligned);
    Eight values = load(x + row * s.cols, at);
    if (s.tile_cols == 1) {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (at.has(i)) values.v[i] *= scale_of(c + i);
    } else {
      const float scale = scale_of(c / s.tile_cols);
      values = each([&](float v) { return v * scale; }, values);
    }
    Pack<std::uint8_t, 8> bytes;
#pragma unroll
    for (int i = 0; i < 8; ++i) bytes.v[i] = round.byte(values.v[i]);
    std::uint8_t* const to = y + row * s.cols + c;
    if (at.packed) {
      check_aligned(to, 8);
      *reinterpret_cast<Pack<std::uint8_t, 8>*>(to) = bytes;
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (at.has(i)) to[i] = bytes.v[i];
    }
  }
}

// Transposed: a block moves a square through shared memory, so that it reads rows and writes
// columns, four bytes at a time.
constexpr int side = 64, word = 4;

struct Square {
  alignas(word) std::uint8_t of[side][side + word];  // by column
};

template <class T>
GPU_KERNEL(threads)
fp8_transposed_kernel(std::uint8_t* y, const T* x, const float* largest, const Fp8Tiles s,
                      std::int64_t chunk, std::int64_t squares) {
  auto& square = shared_memory<Square>();
  const auto thread = static_cast<int>(thread_index());
  const std::int64_t number = block_index().y / squares;  // within the chunk
  const std::int64_t first_row = block_index().y % squares * side;
  const std::int64_t first_column = std::int64_t{block_index().x} * side;
  const std::int64_t rows = chunk - first_row < side ? chunk - first_row : side;
  const std::int64_t begin = number * chunk + first_row, tiles = s.tiles_of_row();
  const Fp8Rounding round(s.type);

  const std::int64_t column = first_column + thread % side;
  if (column < s.cols) {
    const float* const of_column = largest + column / s.tile_cols;
    const auto scale_of = [&](std::int64_t band) {
      return fp8_scale(of_column[band * tiles], round.largest(), s.power_of_2_scales);
    };
    const std::int64_t band = s.band_of(begin);
    const bool same = s.band_of(begin + rows - 1) == band;  // all rows share a band, as is usual
    const float scale = scale_of(band);
    for (std::int64_t line = thread / side; line < rows; line += threads / side) {
      const std::int64_t row = begin + line;
      const float value = to_float(x[row * s.cols + column]);
      square.of[thread % side][line] =
          round.byte(value * (same ? scale : scale_of(s.band_of(row))));
    }
  }
  sync_block();
  constexpr int words = side / word;
  const int line = thread % words * word;
  if (line >= rows) return;
  for (int c = thread / words; c < side && first_column + c < s.cols; c += threads / words) {
    using Word = Pack<std::uint8_t, word>;
    std::uint8_t* const to = y + (number * s.cols + first_column + c) * chunk + first_row + line;
    check_aligned(to, word);
    *reinterpret_cast<Word*>(to) = *reinterpret_cast<const Word*>(&square.of[c][line]);
  }
}

template <class T>
void fp8_bytes(Queue& queue, const Fp8Tiles& s, const float* largest, std::uint8_t* y, const T* x,
               std::int64_t chunk) {
  if (chunk == 0) {
    launch(queue, one_block_each(s.rows, row_threads), fp8_bytes_kernel<T>, y, x, largest, s,
           rows_are_aligned(s.cols, x) && s.cols % 8 == 0);
    return;
  }
  const std::int64_t squares = (chunk + side - 1) / side;
  launch(queue,
         {.blocks = Size{static_cast<unsigned>((s.cols + side - 1) / side),
                         static_cast<unsigned>(s.rows / chunk * squares)},
          .threads = threads},
         fp8_transposed_kernel<T>, y, x, largest, s, chunk, squares);
}

// Zero-fills the rest of a row.
GPU_KERNEL(threads)
fp8_inverse_scales_kernel(float* y, const float* largest, const Fp8Tiles s, std::int64_t chunk,
                          std::int64_t ld, std::int64_t count) {
  const float top = Fp8Rounding(s.type).largest();
  const std::int64_t tiles = s.tiles_of_row();
  for_each(count, [&](std::int64_t i) {
    const std::int64_t line = i / ld, place = i % ld;
    const std::int64_t band = chunk == 0 ? line : line / tiles * chunk + place;
    const std::int64_t tile = chunk == 0 ? place : line % tiles;
    const bool is_left = place >= (chunk == 0 ? tiles : chunk);
    y[i] = is_left ? 0.0f : 1 / fp8_scale(largest[band * tiles + tile], top, s.power_of_2_scales);
  });
}

void fp8_inverse_scales(Queue& queue, const Fp8Tiles& s, const float* largest, float* y,
                        std::int64_t chunk, std::int64_t ld) {
  const std::int64_t bands = s.bands();
  const std::int64_t count = (chunk == 0 ? bands : bands / chunk * s.tiles_of_row()) * ld;
  launch(queue, over(count, threads), fp8_inverse_scales_kernel, y, largest, s, chunk, ld, count);
}

// --- sums ---
// y = x + bias; one block per row.
template <class T>
GPU_KERNEL(row_threads)
store_sums_kernel(T* y, const float* x, const T* bias, std::int64_t cols, bool aligned) {
  const std::int64_t row = block_index().x;
  for (std::int64_t c = 8 * thread_index(); c < cols; c += 8 * row_threads) {
    const Columns at = columns_at(c, cols, aligned);
    Eight sums = load(x + row * cols, at);
    if (bias) sums = each([](float p, float q) { return p + q; }, sums, load(bias, at));
    store(y + row * cols, at, sums);
  }
}

template <class T>
void store_sums(Queue& queue, T* y, const float* x, const T* bias, std::int64_t rows,
                std::int64_t cols) {
  launch(queue, one_block_each(rows, row_threads), store_sums_kernel<T>, y, x, bias, cols,
         rows_are_aligned(cols, x) && rows_are_aligned(cols, y, bias));
}

}  // namespace

template <class T>
void set_fp8(Kernels<T>& table) {
  table.fp8_largest = fp8_largest<T>;
  table.fp8_round = fp8_round<T, float>;
  table.fp8_round_stored = fp8_round<T, T>;
  table.fp8_bytes = fp8_bytes<T>;
  table.fp8_inverse_scales = fp8_inverse_scales;
  table.store_sums = store_sums<T>;
}
TRIREME_GPU_INSTANTIATE(set_fp8);

}  // namespace trireme::gpu
