// The AMX tile unit according to Intel's manual, from LDTILECFG to TDPBF16PS.
#include "backend/cpu/emulated/tiles.h"

namespace trireme::cpu::amx_emulated {
namespace {

constexpr int tiles = 8, most_rows = 16, most_row_bytes = 64;

struct Tile {
  alignas(64) std::uint8_t data[most_rows][most_row_bytes];
  int rows, row_bytes;
};

struct Unit {
  bool configured = false;
  Tile tile[tiles];
};

thread_local Unit unit;

Tile& tile_of(int number) {
  if (!unit.configured) misused("tiles are used that no configuration was loaded for");
  Tile& tile = unit.tile[number];
  if (tile.rows == 0) misused("a tile is used that the configuration leaves out");
  return tile;
}

void clear(Tile& tile) {
  __builtin_memset(tile.data, 0, sizeof tile.data);
}

// Denormal inputs and results are flushed to zero, results are rounded to nearest even, and the
// thread's own settings are neither used nor changed.
class TileRounding {
 public:
  TileRounding() : before_(_mm_getcsr()) { _mm_setcsr(0x1f80 | 0x8040); }
  ~TileRounding() { _mm_setcsr(before_); }
  TileRounding(const TileRounding&) = delete;
  TileRounding& operator=(const TileRounding&) = delete;

 private:
  unsigned before_;
};

// Element `place` (0 or 1) of all pairs of a tile's rows, as float.
struct Operand {
  alignas(64) float at[most_rows][16];

  Operand(const Tile& tile, int place) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000));
    for (int row = 0; row < most_rows; ++row) {
      for (int half = 0; half < 2; ++half) {
        const __m256i pairs = _mm256_load_si256(
            reinterpret_cast<const __m256i*>(tile.data[row] + half * most_row_bytes / 2));
        const __m256i bits =
            place == 0 ? _mm256_slli_epi32(pairs, 16) : _mm256_and_si256(pairs, upper);
        _mm256_store_ps(at[row] + half * 8, _mm256_castsi256_ps(bits));
      }
    }
  }
};

// One row of sums: the products of even and odd elements are summed separately, with one rounding
// per product, then combined, and then added to the old sums.
void multiply_row(float* sums, const float* a_even, const float* a_odd, const Operand& b_even,
                  const Operand& b_odd, int pairs) {
  __m256 even[2] = {}, odd[2] = {};
  for (int k = 0; k < pairs; ++k) {
    const __m256 x = _mm256_set1_ps(a_even[k]), y = _mm256_set1_ps(a_odd[k]);
    for (int half = 0; half < 2; ++half) {
      even[half] = _mm256_fmadd_ps(x, _mm256_load_ps(b_even.at[k] + half * 8), even[half]);
      odd[half] = _mm256_fmadd_ps(y, _mm256_load_ps(b_odd.at[k] + half * 8), odd[half]);
    }
  }
  for (int half = 0; half < 2; ++half) {
    float* to = sums + half * 8;
    _mm256_store_ps(to, _mm256_add_ps(_mm256_load_ps(to), _mm256_add_ps(even[half], odd[half])));
  }
}

}  // namespace

void _tile_loadconfig(const void* config) {
  struct {
    std::uint8_t palette, start_row, reserved[14];
    std::uint16_t row_bytes[16];
    std::uint8_t rows[16];
  } read;
  static_assert(sizeof read == 64);
  __builtin_memcpy(&read, config, sizeof read);
  if (read.palette != 1 || read.start_row != 0) misused("a tile configuration of another palette");
  for (int i = 0; i < tiles; ++i) {
    Tile& tile = unit.tile[i];
    tile.rows = read.rows[i];
    tile.row_bytes = read.row_bytes[i];
    const bool used = tile.rows > 0;
    if (tile.rows > most_rows || tile.row_bytes > most_row_bytes || used != (tile.row_bytes > 0))
      misused("a tile configuration that the processor refuses");
    clear(tile);
  }
  unit.configured = true;
}

void _tile_release() {
  unit.configured = false;
}

void _tile_zero(int tile) {
  clear(tile_of(tile));
}

void _tile_loadd(int number, const void* from, std::int64_t stride) {
  Tile& tile = tile_of(number);
  clear(tile);
  const auto* bytes = static_cast<const std::uint8_t*>(from);
  for (int row = 0; row < tile.rows; ++row)
    __builtin_memcpy(tile.data[row], bytes + row * stride, tile.row_bytes);
}

void _tile_stream_loadd(int number, const void* from, std::int64_t stride) {
  _tile_loadd(number, from, stride);
}

void _tile_stored(int number, void* to, std::int64_t stride) {
  const Tile& tile = tile_of(number);
  auto* bytes = static_cast<std::uint8_t*>(to);
  for (int row = 0; row < tile.rows; ++row)
    __builtin_memcpy(bytes + row * stride, tile.data[row], tile.row_bytes);
}

void _tile_dpbf16ps(int sums_tile, int a_tile, int b_tile) {
  if (sums_tile == a_tile || sums_tile == b_tile || a_tile == b_tile)
    misused("a product of tiles of which two are one");
  Tile& sums = tile_of(sums_tile);
  const Tile &a = tile_of(a_tile), &b = tile_of(b_tile);
  const int pairs = a.row_bytes / 4;
  if (a.rows != sums.rows || b.rows != pairs || b.row_bytes != sums.row_bytes)
    misused("a product of tiles whose shapes do not fit");
  const TileRounding rounding;
  const Operand a_even(a, 0), a_odd(a, 1), b_even(b, 0), b_odd(b, 1);
  for (int row = 0; row < sums.rows; ++row) {
    multiply_row(reinterpret_cast<float*>(sums.data[row]), a_even.at[row], a_odd.at[row], b_even,
                 b_odd, pairs);
  }
}

}  // namespace trireme::cpu::amx_emulated
