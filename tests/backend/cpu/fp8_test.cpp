// Rounding to fp8 in tiles, against a plain reference, and the sums that are stored after products.
#include "backend/cpu/fp8.h"

#include "backend/cpu/kernel_test.h"

#include <limits>

namespace trireme::cpu {
namespace {

// Magnitudes over a wide range, so that tiles differ and some numbers round to zero.
template <class T>
std::vector<double> spread_numbers(std::int64_t count) {
  std::vector<double> x = random_values<T>(count, 7);
  for (std::int64_t i = 0; i < count; ++i) x[i] = std::ldexp(x[i], static_cast<int>(i % 23) - 14);
  return x;
}

struct Cut {
  std::int64_t rows, cols, run, tile_rows, tile_cols;
};
void PrintTo(const Cut& cut, std::ostream* out) {
  *out << cut.rows << " x " << cut.cols << " in runs of " << cut.run << ", tiles " << cut.tile_rows
       << " x " << cut.tile_cols;
}

constexpr Cut cuts[] = {
    {5, 300, 5, 1, 128},        // 1 x 128, the last one smaller
    {260, 7, 130, 128, 1},      // 128 x 1, which end with each run
    {200, 300, 200, 128, 128},  // 128 x 128
    {12, 33, 4, 4, 33},         // one for each run
    {300, 700, 300, 300, 700},  // one for all
    {160, 3, 2, 2, 3},          // many runs of one tile
};

template <class T>
class Fp8Tiling : public testing::Test {};
TYPED_TEST_SUITE(Fp8Tiling, StorageTypes);

TYPED_TEST(Fp8Tiling, RoundsEachTileByItsLargest) {
  for (const Cut& cut : cuts)
    for (const Fp8Type type : {Fp8Type::e4m3, Fp8Type::e5m2_fnuz})
      for (const bool power : {false, true}) {
        const Fp8Tiles tiles{cut.rows,      cut.cols, cut.run, cut.tile_rows,
                             cut.tile_cols, type,     power};
        const Guarded<TypeParam> x(spread_numbers<TypeParam>(cut.rows * cut.cols));
        Guarded<float> largest(tiles.count());
        Guarded<Acc<TypeParam>> y(cut.rows * cut.cols);
        fp8_largest<TypeParam>(tiles, largest.data(), x.data());
        fp8_round<TypeParam>(tiles, largest.data(), y.data(), x.data());
        // Tile by tile, where each begins again with every run.
        std::int64_t number = 0;
        for (std::int64_t run = 0; run < cut.rows; run += cut.run)
          for (std::int64_t top = run; top < run + cut.run; top += cut.tile_rows)
            for (std::int64_t left = 0; left < cut.cols; left += cut.tile_cols, ++number) {
              const std::int64_t bottom = std::min(top + cut.tile_rows, run + cut.run);
              const std::int64_t right = std::min(left + cut.tile_cols, cut.cols);
              float expected = 0;
              const auto each = [&](const auto& body) {
                for (std::int64_t r = top; r < bottom; ++r)
                  for (std::int64_t c = left; c < right; ++c) body(r * cut.cols + c);
              };
              const auto at = [&](std::int64_t i) {
                return static_cast<float>(to_double(x.data()[i]));
              };
              each([&](std::int64_t i) { expected = std::max(expected, std::abs(at(i))); });
              ASSERT_EQ(largest.data()[number], expected) << testing::PrintToString(cut);
              const float scale = fp8_scale(expected, format_of(type).largest, power);
              each([&](std::int64_t i) {
                const float scaled = at(i) * scale;
                ASSERT_EQ(to_double(y.data()[i]),
                          from_fp8(type, to_fp8(type, scaled)) * (1 / scale))
                    << testing::PrintToString(cut) << " element " << i;
              });
            }
        EXPECT_EQ(number, tiles.count());
      }
}

TYPED_TEST(Fp8Tiling, WhatIsNotFiniteShowsAndSpoilsNothingElse) {
  constexpr std::int64_t cols = 64;
  std::vector<double> values(cols, 1.25);
  values[3] = std::numeric_limits<double>::infinity();
  values[9] = std::numeric_limits<double>::quiet_NaN();
  const Fp8Tiles tiles{1, cols, 1, 1, 16, Fp8Type::e5m2, false};
  const Guarded<TypeParam> x(values);
  Guarded<float> largest(tiles.count());
  Guarded<Acc<TypeParam>> y(cols);
  fp8_largest<TypeParam>(tiles, largest.data(), x.data());
  fp8_round<TypeParam>(tiles, largest.data(), y.data(), x.data());
  for (int c = 0; c < cols; ++c) {
    if (c == 3 || c == 9) {
      EXPECT_TRUE(std::isnan(to_double(y.data()[c])));
    } else {
      EXPECT_NEAR(to_double(y.data()[c]), 1.25, 1e-6);
    }
  }
}

// The byte of each element and the inverse of its scale are what the rounded number is made of.
TYPED_TEST(Fp8Tiling, BytesTimesInverseScalesAreTheRoundedNumbers) {
  for (const Cut& cut : cuts)
    for (const bool chunked : {false, true}) {
      const Fp8Tiles tiles{cut.rows,      cut.cols,      cut.run, cut.tile_rows,
                           cut.tile_cols, Fp8Type::e4m3, false};
      const Guarded<TypeParam> x(spread_numbers<TypeParam>(cut.rows * cut.cols));
      const std::int64_t bands = tiles.bands(), per_row = tiles.tiles_of_row();
      const std::int64_t chunk = !chunked ? 0 : cut.rows % 2 == 0 ? cut.rows / 2 : cut.rows;
      const std::int64_t ld = (chunked ? bands : per_row) + 2;
      Guarded<float> largest(tiles.count()), inverse((chunked ? per_row : bands) * ld);
      Guarded<Acc<TypeParam>> y(cut.rows * cut.cols);
      Guarded<std::uint8_t> bytes(cut.rows * cut.cols);
      fp8_largest<TypeParam>(tiles, largest.data(), x.data());
      fp8_round<TypeParam>(tiles, largest.data(), y.data(), x.data());
      fp8_bytes<TypeParam>(tiles, largest.data(), bytes.data(), x.data(), chunk);
      fp8_inverse_scales(tiles, largest.data(), inverse.data(), chunked ? bands : 0, ld);
      for (std::int64_t r = 0; r < cut.rows; ++r)
        for (std::int64_t c = 0; c < cut.cols; ++c) {
          const std::int64_t band = tiles.band_of(r), tile = c / cut.tile_cols;
          const std::uint8_t byte =
              bytes.data()[chunked ? (r / chunk * cut.cols + c) * chunk + r % chunk
                                   : r * cut.cols + c];
          const float scale = inverse.data()[chunked ? tile * ld + band : band * ld + tile];
          ASSERT_EQ(to_double(y.data()[r * cut.cols + c]), from_fp8(Fp8Type::e4m3, byte) * scale)
              << testing::PrintToString(cut) << " row " << r << ", column " << c;
        }
    }
}

TYPED_TEST(Fp8Tiling, SumsAreStoredWithTheirBias) {
  constexpr std::int64_t rows = 5, cols = 37;
  const std::vector<double> sums = random_values<float>(rows * cols, 1),
                            shift = random_values<TypeParam>(cols, 2);
  const Guarded<Acc<TypeParam>> x(sums);
  const Guarded<TypeParam> bias(shift);
  Guarded<TypeParam> plain(rows * cols), shifted(rows * cols);
  store_sums<TypeParam>(plain.data(), x.data(), nullptr, rows, cols);
  store_sums<TypeParam>(shifted.data(), x.data(), bias.data(), rows, cols);
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    using A = Acc<TypeParam>;
    EXPECT_EQ(to_double(plain.data()[i]), to_double(static_cast<TypeParam>(x.data()[i])));
    const A sum = x.data()[i] + static_cast<A>(bias.data()[i % cols]);
    EXPECT_EQ(to_double(shifted.data()[i]), to_double(static_cast<TypeParam>(sum)));
  }
}

}  // namespace
}  // namespace trireme::cpu
