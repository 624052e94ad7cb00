// Compiled for AMX; nothing here may be called where supports(Isa::amx) is false.
//
// What decides the speed (docs/decisions/matmul.md): a step of k multiplies 2 x 2 tiles, which takes
// as long as loading the four tiles from L2. So one operand's sub-panel (kc long) stays in L1 while
// the other streams from L2 with a hint not to displace it, the next outer panel is fetched into L2
// meanwhile, and so are the lines that results will go to.
#include "backend/cpu/amx_tiles.h"

#include <immintrin.h>

namespace trireme::cpu::amx {
namespace {

constexpr std::int64_t tile_bytes = 1024;
constexpr std::int64_t tile_rows = 16;

constexpr std::int64_t min(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Cuts `size` into equal pieces of at most `most`, in whole steps of k.
constexpr std::int64_t even_piece(std::int64_t size, std::int64_t most) {
  const std::int64_t steps = ceil_div(size, step_k);
  return ceil_div(steps, ceil_div(steps, most / step_k)) * step_k;
}

// k is summed in chunks whose packed inner block and partial sums fit into scratch (and L2), and
// these in pieces of which one operand fits into L1 beside the other's stream.
constexpr std::int64_t max_chunk = 1024, max_piece = 512;

constexpr std::int64_t inner_bytes = 1 << 20;
constexpr std::int64_t sums_bytes = scratch_bytes - inner_bytes;

__mmask32 mask32(std::int64_t count) {
  return count >= 32 ? 0xffffffffU : count <= 0 ? 0U : (1U << count) - 1;
}

__mmask16 mask16(std::int64_t count) {
  return static_cast<__mmask16>(mask32(min(count, 16)));
}

// ---- packing ----

// dst[j][i] = src[i][j] for 16 x 16 words of 32 bits; src rows are ld bytes apart.
void transpose_words(char* dst, const char* src, std::int64_t ld) {
  __m512i r[16], t[16];
  for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_si512(src + i * ld);
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 8; ++i) {
    _mm512_store_si512(dst + i * 64, _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88));
    _mm512_store_si512(dst + (i + 8) * 64, _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd));
  }
}

// A tile's worth of vectors with contiguous k: as they are for A, transposed in pairs for B.
void pack_rows(char* dst, const bf16* src, std::int64_t ld, std::int64_t vectors, std::int64_t k,
               Side side) {
  alignas(64) char padded[tile_bytes];
  const bool whole = vectors >= tile_rows && k >= step_k;
  if (side == Side::b && whole) {
    transpose_words(dst, reinterpret_cast<const char*>(src), ld * 2);
    return;
  }
  char* rows = side == Side::a ? dst : padded;
  if (whole) {
    for (int i = 0; i < tile_rows; ++i) {
      _mm512_store_si512(rows + i * 64, _mm512_loadu_si512(src + i * ld));
    }
  } else {
    for (int i = 0; i < tile_rows; ++i) {
      const __mmask32 mask = i < vectors ? mask32(k) : 0;
      _mm512_store_si512(rows + i * 64, _mm512_maskz_loadu_epi16(mask, src + (mask ? i * ld : 0)));
    }
  }
  if (side == Side::b) transpose_words(dst, rows, 64);
}

// Both tiles of a step of vectors that are contiguous at each k: pairs of k are interleaved.
void pack_columns(char* dst, const bf16* src, std::int64_t ld, std::int64_t vectors, std::int64_t k,
                  Side side) {
  alignas(64) char interleaved[step_bytes];
  char* pairs = side == Side::b ? dst : interleaved;
  alignas(64) static constexpr std::uint16_t low[32] = {
      0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
      8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i first_half = _mm512_load_si512(low);
  const __m512i second_half = _mm512_add_epi16(first_half, _mm512_set1_epi16(16));
  const __mmask32 mask = mask32(vectors);
  for (std::int64_t pair = 0; pair < tile_rows; ++pair) {
    const std::int64_t even = 2 * pair, odd = even + 1;
    const __m512i x = even < k ? _mm512_maskz_loadu_epi16(mask, src + even * ld) : __m512i{};
    const __m512i y = odd < k ? _mm512_maskz_loadu_epi16(mask, src + odd * ld) : __m512i{};
    char* row = pairs + pair * 64;
    _mm512_store_si512(row, _mm512_permutex2var_epi16(x, first_half, y));
    _mm512_store_si512(row + tile_bytes, _mm512_permutex2var_epi16(x, second_half, y));
  }
  if (side == Side::a) {
    transpose_words(dst, pairs, 64);
    transpose_words(dst + tile_bytes, pairs + tile_bytes, 64);
  }
}

}  // namespace

void pack(char* dst, std::int64_t panel_bytes, const Operand& operand, Range vectors, Range k) {
  const std::int64_t panels = ceil_div(vectors.length(), panel_vectors);
  const std::int64_t steps = ceil_div(k.length(), step_k);
  const std::int64_t ld = operand.ld;
  if (operand.k_contiguous) {
    for (std::int64_t tile = 0; tile < 2 * panels; ++tile) {
      const std::int64_t vector = vectors.begin + tile * tile_rows;
      char* out = dst + tile / 2 * panel_bytes + tile % 2 * tile_bytes;
      for (std::int64_t step = 0; step < steps; ++step, out += step_bytes) {
        const std::int64_t at = k.begin + step * step_k;
        const std::int64_t count = vectors.end - vector;
        pack_rows(out, operand.data + (count > 0 ? vector * ld + at : 0), ld, count, k.end - at,
                  operand.side);
      }
    }
    return;
  }
  // All vectors of 32 successive k first: rows are read in long pieces.
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t at = k.begin + step * step_k;
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const std::int64_t vector = vectors.begin + panel * panel_vectors;
      pack_columns(dst + panel * panel_bytes + step * step_bytes, operand.data + at * ld + vector,
                   ld, vectors.end - vector, k.end - at, operand.side);
    }
  }
}

namespace {

// ---- multiplication ----

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// What to fetch while a block is multiplied.
struct Fetch {
  const char* next = nullptr;  // the next outer panel, into L2
  int lines_per_step = 0;
  char* dst = nullptr;         // the block's destination, to be written; null if that is not near
  std::int64_t dst_row_bytes = 0;
  int rows_per_step = 0;
};

// sums[32][32] (as four tiles) (+)= A B for `steps` of k. The inner operand is streamed.
template <bool inner_is_a>
inline void multiply(float* sums, const char* inner, const char* outer, std::int64_t steps,
                     bool first, Fetch& fetch) {
  if (first) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, 64);
    _tile_loadd(1, sums + 256, 64);
    _tile_loadd(2, sums + 512, 64);
    _tile_loadd(3, sums + 768, 64);
  }
  const char* next = fetch.next;
  char* dst = fetch.dst;
  for (std::int64_t step = 0; step < steps; ++step, inner += step_bytes, outer += step_bytes) {
    // Tiles 4 and 5 are A, 6 and 7 are B.
    if constexpr (inner_is_a) {
      _tile_stream_loadd(4, inner, 64);
      _tile_loadd(6, outer, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, outer + tile_bytes, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_stream_loadd(5, inner + tile_bytes, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    } else {
      _tile_stream_loadd(6, inner, 64);
      _tile_loadd(4, outer, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(5, outer + tile_bytes, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_stream_loadd(7, inner + tile_bytes, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
    for (int i = 0; i < fetch.lines_per_step; ++i, next += 64) _mm_prefetch(next, _MM_HINT_T1);
    if (dst) {
      for (int i = 0; i < fetch.rows_per_step; ++i, dst += fetch.dst_row_bytes) {
        __builtin_prefetch(dst, 1, 3);
        __builtin_prefetch(dst + 64, 1, 3);
      }
    }
  }
  fetch.next = next;
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + 256, 64);
  _tile_stored(2, sums + 512, 64);
  _tile_stored(3, sums + 768, 64);
}

// ---- storing ----

__m512 widen(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

// dst (+)= sums + bias for the part of a block that lies inside the destination.
void store_block(const Destination& dst, const float* sums, std::int64_t row, std::int64_t col) {
  const std::int64_t rows = min(32, dst.rows - row), cols = dst.cols - col;
  const __mmask32 mask = mask32(cols);
  const __mmask16 low = mask16(cols), high = mask16(cols - 16);
  __m512 bias_low{}, bias_high{};
  if (dst.bias) {
    const __m512i bias = _mm512_maskz_loadu_epi16(mask, dst.bias + col);
    bias_low = widen(_mm512_castsi512_si256(bias));
    bias_high = widen(_mm512_extracti64x4_epi64(bias, 1));
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* line = sums + i / tile_rows * 512 + i % tile_rows * 16;
    __m512 x = _mm512_add_ps(_mm512_load_ps(line), bias_low);
    __m512 y = _mm512_add_ps(_mm512_load_ps(line + 256), bias_high);
    if (dst.is_float) {
      float* out = static_cast<float*>(dst.data) + (row + i) * dst.ld + col;
      if (dst.accumulate) {
        x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(low, out));
        y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(high, out + 16));
      }
      _mm512_mask_storeu_ps(out, low, x);
      _mm512_mask_storeu_ps(out + 16, high, y);
    } else {
      bf16* out = static_cast<bf16*>(dst.data) + (row + i) * dst.ld + col;
      if (dst.accumulate) {
        const __m512i old = _mm512_maskz_loadu_epi16(mask, out);
        x = _mm512_add_ps(x, widen(_mm512_castsi512_si256(old)));
        y = _mm512_add_ps(y, widen(_mm512_extracti64x4_epi64(old, 1)));
      }
      const auto rounded = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(y, x));
      _mm512_mask_storeu_epi16(out, mask, rounded);
    }
  }
}

// ---- a task ----

class Runner {
 public:
  explicit Runner(const Task& task)
      : task_(task),
        chunk_(even_piece(task.inner.k, max_chunk)),
        inner_panels_(ceil_div(task.inner_vectors.length(), panel_vectors)),
        inner_(task.scratch),
        sums_(reinterpret_cast<float*>(task.scratch + inner_bytes)) {}

  template <bool inner_is_a>
  void run() {
    for (std::int64_t begin = 0; begin < task_.inner.k; begin += chunk_) {
      const Range k{begin, min(begin + chunk_, task_.inner.k)};
      panel_bytes_ = ceil_div(k.length(), step_k) * step_bytes;
      pack(inner_, panel_bytes_, task_.inner, task_.inner_vectors, k);
      const Range vectors = task_.outer_vectors;
      for (std::int64_t v = vectors.begin; v < vectors.end; v += panel_vectors) {
        multiply_panel<inner_is_a>(v, k);
      }
    }
  }

 private:
  // One outer panel with all inner panels, for one chunk of k.
  template <bool inner_is_a>
  void multiply_panel(std::int64_t outer_vector, Range k) {
    const std::int64_t all_k = ceil_div(task_.inner.k, step_k) * step_k;
    const std::int64_t outer_bytes = all_k * panel_vectors * 2;
    const std::int64_t panel = (outer_vector - task_.outer_first) / panel_vectors;
    const char* outer = task_.outer + panel * outer_bytes + k.begin / step_k * step_bytes;
    const std::int64_t steps = ceil_div(k.length(), step_k);
    const std::int64_t piece = even_piece(k.length(), max_piece) / step_k;
    const bool several_chunks = chunk_ < task_.inner.k;
    float* sums = sums_;
    if (several_chunks) {
      sums += (outer_vector - task_.outer_vectors.begin) / panel_vectors * inner_panels_ * block_floats;
    }
    Fetch fetch;
    fetch.next = outer + outer_bytes;
    fetch.lines_per_step = static_cast<int>(min(4, ceil_div(step_bytes / 64, inner_panels_)));
    for (std::int64_t step = 0; step < steps; step += piece) {
      const std::int64_t count = min(piece, steps - step);
      const bool first = k.begin == 0 && step == 0;
      const bool last = k.end == task_.inner.k && step + count == steps;
      for (std::int64_t i = 0; i < inner_panels_; ++i) {
        const std::int64_t inner_vector = task_.inner_vectors.begin + i * panel_vectors;
        const std::int64_t row = inner_is_a ? inner_vector : outer_vector;
        const std::int64_t col = inner_is_a ? outer_vector : inner_vector;
        if (last) aim(fetch, row, col, count);
        float* block = sums + i * block_floats;
        multiply<inner_is_a>(block, inner_ + i * panel_bytes_ + step * step_bytes,
                             outer + step * step_bytes, count, first, fetch);
        if (last) store_block(task_.dst, block, row, col);
      }
    }
  }

  // Has the destination of a block fetched while its last `steps` are multiplied.
  void aim(Fetch& fetch, std::int64_t row, std::int64_t col, std::int64_t steps) const {
    const std::int64_t size = task_.dst.is_float ? 4 : 2;
    fetch.dst = static_cast<char*>(task_.dst.data) + (row * task_.dst.ld + col) * size;
    fetch.dst_row_bytes = task_.dst.ld * size;
    fetch.rows_per_step = static_cast<int>(ceil_div(32, steps));
  }

  const Task& task_;
  std::int64_t chunk_;
  std::int64_t inner_panels_;
  std::int64_t panel_bytes_ = 0;  // of packed inner panels in the present chunk
  char* inner_;
  float* sums_;
};

}  // namespace

std::int64_t max_inner_vectors(std::int64_t k) { return k <= max_chunk ? 512 : 256; }

std::int64_t max_outer_vectors(std::int64_t k) {
  if (k <= max_chunk) return std::int64_t{1} << 40;
  return sums_bytes / (max_inner_vectors(k) * static_cast<std::int64_t>(sizeof(float)));
}

void run(const Task& task) {
  alignas(64) static constexpr TileConfig config;
  _tile_loadconfig(&config);
  Runner runner(task);
  if (task.inner.side == Side::a) {
    runner.run<true>();
  } else {
    runner.run<false>();
  }
  _tile_release();
}

}  // namespace trireme::cpu::amx
