// Tests of rounding to fp8: the GPU's maxima, scales and numbers have the CPU's bits.
#include <cmath>
#include <limits>

#include "backend/gpu/both_devices.h"

namespace trireme {
namespace {

class Fp8 : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(Fp8);

struct Fp8Cut {
  std::int64_t rows, cols, run, tile_rows, tile_cols;
  std::vector<std::int32_t> offsets = {};  // of the groups, if any
};

// All tile shapes, aligned and unaligned; in runs, and in groups, some of them empty, with rows of
// no group at the end.
const Fp8Cut fp8_cuts[] = {
    {5, 300, 5, 1, 128},
    {35, 256, 35, 1, 128},
    {260, 7, 130, 128, 1},
    {256, 264, 256, 128, 1},
    {200, 300, 200, 128, 128},
    {512, 264, 256, 128, 128},
    {12, 33, 4, 4, 33},
    {300, 520, 300, 300, 520},
    {160, 3, 2, 2, 3},
    {170, 300, 170, 1, 128, {0, 141, 141, 160}},
    {170, 40, 170, 128, 1, {0, 0, 131, 131, 170}},
    {170, 300, 170, 170, 300, {0, 133, 141, 141, 160, 160}},
    {20, 16, 20, 20, 16, {0, 0, 0}},
};

template <class T>
std::vector<T> spread_values(std::size_t count) {
  std::vector<T> x = normal_values<T>(count, 1);
  for (std::size_t i = 0; i < count; ++i)
    x[i] = T(std::ldexp(static_cast<float>(x[i]), static_cast<int>(i % 23) - 14));
  if (count > 40) x[7] = T(std::numeric_limits<float>::quiet_NaN());
  if (count > 2000) x[1999] = T(-std::numeric_limits<float>::infinity());
  return x;
}

// Compares bits, since NaN is not equal to itself.
template <class T>
void append_bits(std::vector<std::uint32_t>& bits, const std::vector<T>& values) {
  for (const T& value : values) {
    const float number = static_cast<float>(value);
    bits.push_back(std::isnan(number) ? 1u : std::bit_cast<std::uint32_t>(number));
  }
}

TEST_P(Fp8, RoundsEachTileAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const Fp8Cut& cut : fp8_cuts)
      for (const Fp8Type type :
           {Fp8Type::e4m3, Fp8Type::e5m2, Fp8Type::e4m3_fnuz, Fp8Type::e5m2_fnuz}) {
        const bool power = type == Fp8Type::e5m2 || type == Fp8Type::e4m3_fnuz;
        SCOPED_TRACE(testing::Message()
                     << cut.rows << " x " << cut.cols << ", tiles of " << cut.tile_rows << " x "
                     << cut.tile_cols << ", " << cut.offsets.size() << " offsets, type "
                     << static_cast<int>(type));
        const auto count = static_cast<std::size_t>(cut.rows * cut.cols);
        expect_equal(on_both([&](Device& device) {
          const OnDevice<std::int32_t> offsets(
              device, cut.offsets.empty() ? std::vector<std::int32_t>{0} : cut.offsets);
          Fp8Tiles tiles{cut.rows, cut.cols, cut.run, cut.tile_rows, cut.tile_cols, type, power};
          if (!cut.offsets.empty()) {
            tiles.offsets = offsets.get();
            tiles.groups = static_cast<std::int64_t>(cut.offsets.size()) - 1;
          }
          const OnDevice<T> x(device, spread_values<T>(count)), stored(device, count);
          const OnDevice<float> largest(device, static_cast<std::size_t>(tiles.count()));
          const OnDevice<float> y(device, count);
          const Kernels<T>& kernels = device.kernels<T>();
          kernels.fp8_largest(device.queue(), tiles, largest.get(), x.get());
          kernels.fp8_round(device.queue(), tiles, largest.get(), y.get(), x.get());
          kernels.fp8_round_stored(device.queue(), tiles, largest.get(), stored.get(), x.get());
          std::vector<std::uint32_t> bits;
          append_bits(bits, largest.values());
          append_bits(bits, y.values());
          append_bits(bits, stored.values());
          return bits;
        }));
      }
  });
}

// Straight and transposed, whole and in chunks, some of which are split into bands; and the inverse
// scales, in rows with padding.
TEST_P(Fp8, MakesTheCpusBytes) {
  struct Bytes {
    Fp8Cut cut;
    std::int64_t chunk, bands_of_chunk;
  };
  const Bytes all[] = {
      {{5, 300, 5, 1, 128}, 0, 0},       {{36, 256, 36, 1, 128}, 0, 36},
      {{16, 264, 16, 1, 128}, 0, 4},     {{12, 33, 4, 4, 33}, 0, 0},
      {{200, 304, 200, 128, 128}, 0, 2}, {{200, 304, 200, 128, 128}, 200, 0},
      {{256, 72, 256, 128, 1}, 256, 0},  {{264, 7, 132, 128, 1}, 44, 0},
      {{160, 130, 80, 80, 130}, 80, 0},  {{160, 16, 80, 80, 16}, 160, 0},
      {{4, 3, 2, 2, 3}, 4, 1},
  };
  for_storage_types([&]<class T>(T) {
    for (const auto& [cut, chunk, bands_of_chunk] : all)
      for (const Fp8Type type :
           {Fp8Type::e4m3, Fp8Type::e5m2, Fp8Type::e4m3_fnuz, Fp8Type::e5m2_fnuz}) {
        SCOPED_TRACE(testing::Message() << cut.rows << " x " << cut.cols << ", chunk " << chunk
                                        << ", type " << static_cast<int>(type));
        const Fp8Tiles tiles{
            cut.rows, cut.cols, cut.run, cut.tile_rows, cut.tile_cols, type, type == Fp8Type::e5m2};
        const auto count = static_cast<std::size_t>(cut.rows * cut.cols);
        const std::int64_t ld = (bands_of_chunk > 0 ? bands_of_chunk : tiles.tiles_of_row()) + 3;
        const std::int64_t lines = bands_of_chunk > 0
                                       ? tiles.bands() / bands_of_chunk * tiles.tiles_of_row()
                                       : tiles.bands();
        const auto made = on_both([&](Device& device) {
          const OnDevice<T> x(device, spread_values<T>(count));
          const OnDevice<float> largest(device, static_cast<std::size_t>(tiles.count()));
          const OnDevice<float> inverse(device, static_cast<std::size_t>(lines * ld));
          const OnDevice<std::uint8_t> y(device, count);
          const Kernels<T>& kernels = device.kernels<T>();
          kernels.fp8_largest(device.queue(), tiles, largest.get(), x.get());
          kernels.fp8_bytes(device.queue(), tiles, largest.get(), y.get(), x.get(), chunk);
          kernels.fp8_inverse_scales(device.queue(), tiles, largest.get(), inverse.get(),
                                     bands_of_chunk, ld);
          std::vector<std::uint32_t> bits;
          append_bits(bits, inverse.values());
          for (const std::uint8_t byte : y.values()) bits.push_back(byte);
          return bits;
        });
        expect_equal(made);
      }
  });
}

TEST_P(Fp8, StoresSumsAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const std::int64_t cols : {37, 1040})
      for (const bool biased : {false, true})
        expect_equal(on_both([&](Device& device) {
          const std::int64_t rows = 5;
          const auto count = static_cast<std::size_t>(rows * cols);
          const OnDevice<float> x(device, normal_values<float>(count, 1));
          const OnDevice<T> bias(device, normal_values<T>(static_cast<std::size_t>(cols), 2));
          const OnDevice<T> y(device, count);
          device.kernels<T>().store_sums(device.queue(), y.get(), x.get(),
                                         biased ? bias.get() : nullptr, rows, cols);
          return y.values();
        }));
  });
}

}  // namespace
}  // namespace trireme
