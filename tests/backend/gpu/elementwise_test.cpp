// Tests of sums, scaling, dropout, casts and the search for non-finite values on the GPU against
// the CPU.
#include <cmath>
#include <limits>

#include "backend/gpu/both_devices.h"

namespace trireme {
namespace {

class Elementwise : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(Elementwise);

TEST_P(Elementwise, CastsMasterWeightsAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    const auto master = normal_values<float>(1013, 1);
    for (const int offset : {0, 1}) {  // aligned and unaligned
      expect_equal(on_both([&](Device& device) {
        const OnDevice<float> src(device, master);
        const OnDevice<T> dst(device, master.size());
        device.kernels<T>().cast_from_master(device.queue(), dst.get() + offset, src.get() + offset,
                                             1013 - offset);
        return dst.values();
      }));
    }
  });
}

TEST_P(Elementwise, AddsTwoTensors) {
  for_storage_types([&]<class T>(T) {
    const std::int64_t rows = 7, cols = 143;
    const auto a = normal_values<T>(rows * cols, 1), b = normal_values<T>(rows * cols, 2);
    for (const bool in_place : {false, true}) {
      expect_equal(on_both([&](Device& device) {
        const OnDevice<T> x(device, a), d(device, b), other(device, a.size());
        const OnDevice<T>& y = in_place ? x : other;
        device.kernels<T>().add(device.queue(), y.get(), x.get(), d.get(), rows, cols, {});
        return y.values();
      }));
    }
    expect_equal(on_both([&](Device& device) {
      const OnDevice<T> d(device, b), y(device, b.size());
      device.kernels<T>().add(device.queue(), y.get(), nullptr, d.get(), rows, cols, {});
      return y.values();
    }));
  });
}

TEST_P(Elementwise, MultipliesByAFactor) {
  for_storage_types([&]<class T>(T) {
    const auto values = normal_values<T>(1013, 1);
    for (const int offset : {0, 1}) {
      expect_equal(on_both([&](Device& device) {
        const OnDevice<T> x(device, values), other(device, values.size());
        const OnDevice<T>& y = offset ? x : other;  // tests in-place as well
        device.kernels<T>().scale(device.queue(), y.get() + offset, x.get() + offset, 1013 - offset,
                                  5.65685);
        return y.values();
      }));
    }
  });
}

// Compares y and dx.
TEST_P(Elementwise, CapsSoftlyAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const int offset : {0, 1}) {
      expect_close(on_both([&](Device& device) {
                     const OnDevice<T> x(device, normal_values<T>(1013, 1));
                     const OnDevice<T> dy(device, normal_values<T>(1013, 2)), y(device, 1013);
                     const auto& kernels = device.kernels<T>();
                     const std::int64_t count = 1013 - offset;
                     kernels.soft_cap(device.queue(), y.get() + offset, x.get() + offset, count,
                                      0.9);
                     kernels.soft_cap_grad(device.queue(), dy.get() + offset, dy.get() + offset,
                                           x.get() + offset, count, 0.9);
                     std::vector<float> all = as_floats(dy.values());
                     const auto capped = as_floats(y.values());
                     all.insert(all.end(), capped.begin() + offset, capped.end());
                     return all;
                   }),
                   tolerance_of<T>());
    }
  });
}

// Pieces are copied in another order; sizes are multiples of eight, and not.
TEST_P(Elementwise, CopiesBlocksAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const BlockCopy& copy :
         {BlockCopy{{2, 3, 4}, {96, 32, 8}, {96, 8, 24}, 0, 0, 8},
          BlockCopy{{1, 3, 5}, {0, 55, 11}, {0, 11, 33}, 2, 1, 10},
          BlockCopy{{2, 1, 1}, {2048, 0, 0}, {1024, 0, 0}, 1024, 0, 1024}}) {
      expect_equal(on_both([&](Device& device) {
        const OnDevice<T> src(device, normal_values<T>(4096, 1));
        const OnDevice<T> dst(device, normal_values<T>(4096, 2));
        device.kernels<T>().copy_blocks(device.queue(), dst.get(), src.get(), copy);
        return dst.values();
      }));
    }
  });
}

// Blocks are adjacent, and apart.
TEST_P(Elementwise, SumsBlocksAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const BlockCopy& copy : {BlockCopy{{6, 1, 4}, {16, 0, 0}, {96, 0, 24}, 0, 8, 16},
                                  BlockCopy{{3, 4, 3}, {44, 11, 0}, {0, 55, 11}, 2, 1, 10},
                                  BlockCopy{{2, 1, 2}, {1024, 0, 0}, {2048, 0, 1024}, 0, 0, 300}}) {
      expect_equal(on_both([&](Device& device) {
        const OnDevice<T> src(device, normal_values<T>(4096, 1));
        const OnDevice<T> dst(device, normal_values<T>(4096, 2));
        device.kernels<T>().sum_blocks(device.queue(), dst.get(), src.get(), copy);
        return dst.values();
      }));
    }
  });
}

struct Site {
  std::int64_t cols, first_row, first_column;
  float probability;
  SequenceCut cut = {};
};

TEST_P(Elementwise, DropsWhatTheCpuDrops) {
  const std::int64_t rows = 5, seq = 4;
  const std::vector<std::int64_t> samples = {7, std::int64_t{1} << 40, 3};
  const StepBlock step{.seed = 0x123456789abcdef, .step = std::uint64_t{5} << 32 | 9};
  for_storage_types([&]<class T>(T) {
    for (const Site& site :
         {Site{64, 0, 0, 0.1f}, Site{1, 3, 0, 0.5f}, Site{1000, 3, 0, 0.25f},
          Site{2312, 1, 384, 0.1f}, Site{200, 0, 72, 0.3f}, Site{133, 2, 131, 0.9f},
          Site{40, 0, 8, 1.0f}, Site{200, 0, 0, 0.4f, {2, {2, 12}}}}) {
      const std::vector<T> ones(static_cast<std::size_t>(rows * site.cols), T(1.0f));
      const auto both = on_both([&](Device& device) {
        const OnDevice<StepBlock> block(device, std::vector{step});
        const OnDevice<std::int64_t> ids(device, samples);
        const OnDevice<T> x(device, ones), y(device, ones.size());
        device.kernels<T>().add(device.queue(), y.get(), nullptr, x.get(), rows, site.cols,
                                {{.probability = site.probability,
                                  .site = 11,
                                  .first_row = site.first_row,
                                  .cut = site.cut},
                                 block.get(),
                                 ids.get(),
                                 seq,
                                 site.first_column});
        return y.values();
      });
      expect_equal(both);
      if (site.probability == 1) continue;
      const auto kept = [](T value) { return static_cast<float>(value) > 0; };
      const auto share =
          static_cast<double>(std::count_if(both.second.begin(), both.second.end(), kept)) /
          static_cast<double>(ones.size());
      EXPECT_NEAR(share, 1 - site.probability, 3 / std::sqrt(static_cast<double>(ones.size())));
    }
  });
}

TEST_P(Elementwise, AddsWhatDropoutKeeps) {
  const std::int64_t rows = 3, cols = 264;
  const std::vector<std::int64_t> samples = {4, 5, 6};
  for_storage_types([&]<class T>(T) {
    const auto a = normal_values<T>(rows * cols, 1), b = normal_values<T>(rows * cols, 2);
    expect_close(on_both([&](Device& device) {
                   const OnDevice<StepBlock> block(device, std::vector{StepBlock{.seed = 3}});
                   const OnDevice<std::int64_t> ids(device, samples);
                   const OnDevice<T> x(device, a), d(device, b);
                   const Dropout dropout{{.probability = 0.2f}, block.get(), ids.get(), 1};
                   device.kernels<T>().add(device.queue(), d.get(), x.get(), d.get(), rows, cols,
                                           dropout);
                   return d.values();
                 }),
                 tolerance_of<T>());
  });
}

TEST_P(Elementwise, FindsTheFirstThatIsNotFinite) {
  for_storage_types([&]<class T>(T) {
    for (const std::int64_t first : {-1, 0, 7, 3000, 4098}) {
      auto values = normal_values<T>(4099, 1);
      if (first >= 0) {
        values[static_cast<std::size_t>(first)] = T(std::numeric_limits<float>::quiet_NaN());
        values.back() = T(-std::numeric_limits<float>::infinity());
      }
      const auto [expected, got] = on_both([&](Device& device) {
        const OnDevice<T> x(device, values);
        const OnDevice<std::int64_t> index(device, std::vector<std::int64_t>{77});
        device.kernels<T>().first_not_finite(device.queue(), index.get(), x.get(), 4099);
        return index.values()[0];
      });
      EXPECT_EQ(expected, first);
      EXPECT_EQ(got, first);
    }
  });
}

}  // namespace
}  // namespace trireme
