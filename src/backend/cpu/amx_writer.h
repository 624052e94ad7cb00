// Moves finished blocks of sums from AMX tiles to their destination. Only for amx_tiles.cpp.
#pragma once

#include <immintrin.h>

#include "backend/cpu/amx_tiles.h"
#include "base/divide.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// A block of C is 32 x 32 floats, stored as four tiles of 16 x 16: two above two.
constexpr std::int64_t tile_floats = 256, block_floats = 4 * tile_floats;

constexpr std::int64_t min(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

__m512 widen(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

// A finished block on its way to the destination, some rows at a time.
struct Rows {
  const float* sums = nullptr;  // at the next row
  char* out = nullptr;
  std::int64_t left = 0, until_lower_tiles = 0;
};

// A block waits while another one is multiplied, so that its sums and destination lines are in L1
// when needed; then it becomes active and is written while a third one is multiplied.
class Writer {
 public:
  explicit Writer(const Destination& dst)
      : dst_(dst), element_bytes_(dst.is_float ? 4 : 2), row_bytes_(dst.ld * element_bytes_) {
    const auto misaligned = reinterpret_cast<std::uintptr_t>(dst.data) % 64 + row_bytes_ % 64;
    stream_ = dst.stream && !dst.accumulate && !misaligned;
    lines_per_row_ = stream_ ? 0 : (dst.is_float ? 2 : 1) + (misaligned ? 1 : 0);
  }

  // Buffer for the next block's sums, once the active block is written.
  float* free_sums() { return sums_[1 - buffer_]; }

  // The block just stored to free_sums() becomes the waiting one; the waiting one becomes active.
  Rows wait(std::int64_t row, std::int64_t col) {
    const Rows active = start_waiting();
    buffer_ = 1 - buffer_;
    waiting_ = {sums_[buffer_],
                static_cast<char*>(dst_.data) + row * row_bytes_ + col * element_bytes_,
                min(32, dst_.rows - row), 16};
    waiting_col_ = col;
    return active;
  }

  // The waiting block becomes active, and none waits.
  Rows start_waiting() {
    const Rows active = waiting_;
    waiting_.left = 0;
    if (active.left == 0) return active;
    const std::int64_t cols = dst_.cols - waiting_col_;
    mask_ = cols >= 32 ? 0xffffffffU : (1U << cols) - 1;
    bias_low_ = bias_high_ = __m512{};
    if (dst_.bias) {
      const __m512i bias = _mm512_maskz_loadu_epi16(mask_, dst_.bias + waiting_col_);
      bias_low_ = widen(_mm512_castsi512_si256(bias));
      bias_high_ = widen(_mm512_extracti64x4_epi64(bias, 1));
    }
    return active;
  }

  // Writes up to `count` rows of the active block.
  void write(Rows& rows, std::int64_t count) const {
    count = min(count, rows.left);
    rows.left -= count;
    if (stream_ && mask_ == 0xffffffffU) {
      dst_.is_float ? write_float<Mode::stream>(rows, count)
                    : write_bf16<Mode::stream>(rows, count);
    } else if (dst_.accumulate) {
      dst_.is_float ? write_float<Mode::add>(rows, count) : write_bf16<Mode::add>(rows, count);
    } else {
      dst_.is_float ? write_float<Mode::set>(rows, count) : write_bf16<Mode::set>(rows, count);
    }
  }

  // Destination lines of the waiting block, to be prefetched; null if there are none.
  const char* waiting_lines() const { return waiting_.left > 0 ? waiting_.out : nullptr; }
  std::int64_t row_bytes() const { return row_bytes_; }
  std::int64_t lines_per_row() const { return lines_per_row_; }

 private:
  enum class Mode { set, add, stream };

  void advance(Rows& rows) const {
    rows.sums += 16;
    rows.out += row_bytes_;
    if (--rows.until_lower_tiles == 0) rows.sums += tile_floats;
  }

  template <Mode mode>
  void write_float(Rows& rows, std::int64_t count) const {
    const auto low = static_cast<__mmask16>(mask_), high = static_cast<__mmask16>(mask_ >> 16);
    for (; count > 0; --count, advance(rows)) {
      float* out = reinterpret_cast<float*>(rows.out);
      __m512 x = _mm512_add_ps(_mm512_load_ps(rows.sums), bias_low_);
      __m512 y = _mm512_add_ps(_mm512_load_ps(rows.sums + tile_floats), bias_high_);
      if constexpr (mode == Mode::add) {
        x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(low, out));
        y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(high, out + 16));
      }
      if constexpr (mode == Mode::stream) {
        _mm512_stream_ps(out, x);
        _mm512_stream_ps(out + 16, y);
      } else {
        _mm512_mask_storeu_ps(out, low, x);
        _mm512_mask_storeu_ps(out + 16, high, y);
      }
    }
  }

  template <Mode mode>
  void write_bf16(Rows& rows, std::int64_t count) const {
    for (; count > 0; --count, advance(rows)) {
      __m512 x = _mm512_add_ps(_mm512_load_ps(rows.sums), bias_low_);
      __m512 y = _mm512_add_ps(_mm512_load_ps(rows.sums + tile_floats), bias_high_);
      if constexpr (mode == Mode::add) {
        const __m512i old = _mm512_maskz_loadu_epi16(mask_, rows.out);
        x = _mm512_add_ps(x, widen(_mm512_castsi512_si256(old)));
        y = _mm512_add_ps(y, widen(_mm512_extracti64x4_epi64(old, 1)));
      }
      const auto rounded = (__m512i)_mm512_cvtne2ps_pbh(y, x);
      if constexpr (mode == Mode::stream) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(rows.out), rounded);
      } else {
        _mm512_mask_storeu_epi16(rows.out, mask_, rounded);
      }
    }
  }

  alignas(64) float sums_[2][block_floats];
  __m512 bias_low_{}, bias_high_{};  // of the active block
  const Destination dst_;
  std::int64_t element_bytes_, row_bytes_, lines_per_row_;
  bool stream_;
  Rows waiting_;
  std::int64_t waiting_col_ = 0;
  int buffer_ = 0;      // of the waiting block
  __mmask32 mask_ = 0;  // columns of the active block
};

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
