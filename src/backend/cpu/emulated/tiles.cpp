// The AMX tile unit according to Intel's manual, from LDTILECFG to TDPBF16PS.
#include "backend/cpu/emulated/tiles.h"

namespace trireme::cpu::amx_emulated {
namespace {

constexpr int tiles = 8, most_rows = 16, most_row_bytes = 64;

// Elements of a tile as an operand of products, as floats: those at even places of its pairs, and
// those at odd ones.
struct Elements {
  alignas(64) float even[most_rows][16], odd[most_rows][16];
};

struct Tile {
  alignas(64) std::uint8_t data[most_rows][most_row_bytes];
  int rows, row_bytes;
  bool is_widened;  // whether `elements` are those of `data`
  Elements elements;
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
  tile.is_widened = false;
}

// Whole tiles, which most are, have rows of a constant size: the compiler copies them without a
// call.
bool is_whole(const Tile& tile) {
  return tile.rows == most_rows && tile.row_bytes == most_row_bytes;
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

// Each operand takes part in several products: its elements are widened once.
const Elements& elements_of(Tile& tile) {
  if (tile.is_widened) return tile.elements;
  tile.is_widened = true;
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000));
  for (int row = 0; row < most_rows; ++row) {
    for (int place = 0; place < 16; place += 8) {
      const __m256i pairs =
          _mm256_load_si256(reinterpret_cast<const __m256i*>(tile.data[row] + place * 4));
      _mm256_store_ps(tile.elements.even[row] + place,
                      _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)));
      _mm256_store_ps(tile.elements.odd[row] + place,
                      _mm256_castsi256_ps(_mm256_and_si256(pairs, upper)));
    }
  }
  return tile.elements;
}

// Two rows of sums: the products of even and odd elements are summed separately, with one rounding
// per product, then combined, and then added to the old sums. (Two rows at once, since a single
// one's additions would wait for each other.)
void multiply_rows(Tile& sums, const Elements& a, const Elements& b, int row, int pairs) {
  __m256 even[2][2] = {}, odd[2][2] = {};  // [row][half]
  for (int k = 0; k < pairs; ++k) {
    const __m256 b_even[2] = {_mm256_load_ps(b.even[k]), _mm256_load_ps(b.even[k] + 8)};
    const __m256 b_odd[2] = {_mm256_load_ps(b.odd[k]), _mm256_load_ps(b.odd[k] + 8)};
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const __m256 x = _mm256_broadcast_ss(&a.even[row + i][k]);
      const __m256 y = _mm256_broadcast_ss(&a.odd[row + i][k]);
      even[i][0] = _mm256_fmadd_ps(x, b_even[0], even[i][0]);
      even[i][1] = _mm256_fmadd_ps(x, b_even[1], even[i][1]);
      odd[i][0] = _mm256_fmadd_ps(y, b_odd[0], odd[i][0]);
      odd[i][1] = _mm256_fmadd_ps(y, b_odd[1], odd[i][1]);
    }
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    float* to = reinterpret_cast<float*>(sums.data[row + i]);
    const __m256 low = _mm256_add_ps(even[i][0], odd[i][0]);
    const __m256 high = _mm256_add_ps(even[i][1], odd[i][1]);
    _mm256_store_ps(to, _mm256_add_ps(_mm256_load_ps(to), low));
    _mm256_store_ps(to + 8, _mm256_add_ps(_mm256_load_ps(to + 8), high));
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
  const auto* bytes = static_cast<const std::uint8_t*>(from);
  if (is_whole(tile)) {
    tile.is_widened = false;
    for (int row = 0; row < most_rows; ++row)
      __builtin_memcpy(tile.data[row], bytes + row * stride, most_row_bytes);
    return;
  }
  clear(tile);
  for (int row = 0; row < tile.rows; ++row)
    __builtin_memcpy(tile.data[row], bytes + row * stride, tile.row_bytes);
}

void _tile_stream_loadd(int number, const void* from, std::int64_t stride) {
  _tile_loadd(number, from, stride);
}

void _tile_stored(int number, void* to, std::int64_t stride) {
  const Tile& tile = tile_of(number);
  auto* bytes = static_cast<std::uint8_t*>(to);
  if (is_whole(tile)) {
    for (int row = 0; row < most_rows; ++row)
      __builtin_memcpy(bytes + row * stride, tile.data[row], most_row_bytes);
    return;
  }
  for (int row = 0; row < tile.rows; ++row)
    __builtin_memcpy(bytes + row * stride, tile.data[row], tile.row_bytes);
}

void _tile_dpbf16ps(int sums_tile, int a_tile, int b_tile) {
  if (sums_tile == a_tile || sums_tile == b_tile || a_tile == b_tile)
    misused("a product of tiles of which two are one");
  Tile &sums = tile_of(sums_tile), &a = tile_of(a_tile), &b = tile_of(b_tile);
  const int pairs = a.row_bytes / 4;
  if (a.rows != sums.rows || b.rows != pairs || b.row_bytes != sums.row_bytes)
    misused("a product of tiles whose shapes do not fit");
  const TileRounding rounding;
  const Elements &left = elements_of(a), &right = elements_of(b);
  sums.is_widened = false;
  // Rows and columns beyond those of a tile are zero, and stay so.
  for (int row = 0; row < sums.rows; row += 2) multiply_rows(sums, left, right, row, pairs);
}

}  // namespace trireme::cpu::amx_emulated
