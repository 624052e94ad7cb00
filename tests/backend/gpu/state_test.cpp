// Tests of gradient sums and states in floating point, fixed point and bf16: the GPU matches the
// CPU bit for bit.
#include <cmath>
#include <limits>

#include "backend/gpu/both_devices.h"
#include "backend/state_kernels.h"

namespace trireme {
namespace {

class State : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(State);

constexpr std::int64_t counts[] = {1, 7, 1000, 4103};

template <class T>
void expect_same_bytes(const std::pair<std::vector<T>, std::vector<T>>& both) {
  ASSERT_EQ(both.first.size(), both.second.size());
  EXPECT_EQ(std::memcmp(both.first.data(), both.second.data(), both.first.size() * sizeof(T)), 0);
}

// The payload of a NaN sum depends on the processor.
template <class T>
std::vector<T> with_one_nan(std::vector<T> values) {
  for (T& value : values)
    if (std::isnan(static_cast<float>(value)))
      value = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  return values;
}

template <class T>
std::vector<T> some_values(std::size_t count, std::uint64_t seed) {
  if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, double>) {
    std::vector<T> values;
    for (const float x : normal_values<float>(count, seed))
      values.push_back(static_cast<T>(x * 1e9));
    return values;
  } else {
    return normal_values<T>(count, seed);
  }
}

TEST_P(State, AddsEveryType) {
  const auto check = [&]<class T>(DType dtype, T) {
    for (const std::int64_t count : counts) {
      for (const int offset : {0, 1}) {
        const auto size = static_cast<std::size_t>(count + offset);
        expect_same_bytes(on_both([&](Device& device) {
          const OnDevice<T> sums(device, some_values<T>(size, 1));
          const OnDevice<T> summands(device, some_values<T>(size, 2));
          device.state_kernels().add(device.queue(), dtype, sums.get() + offset, summands.get(),
                                     count);
          return sums.values();
        }));
      }
    }
  };
  check(DType::f32, float{}), check(DType::f64, double{});
  check(DType::bf16, bf16{}), check(DType::i64, std::int64_t{});
}

TEST_P(State, ReducesPartsInTheOrderOfRanks) {
  const auto check = [&]<class T>(DType dtype, T) {
    constexpr int ranks = 5, own = 2;
    for (const std::int64_t count : counts) {
      for (const std::int64_t stride : {count, count + 16, 8 * count}) {
        for (const bool maximum : {false, true}) {
          expect_same_bytes(on_both([&](Device& device) {
            auto values = some_values<T>(static_cast<std::size_t>(ranks * stride), 1);
            if constexpr (std::is_same_v<T, float>)
              values[0] = std::numeric_limits<float>::quiet_NaN();
            const OnDevice<T> parts(device, values);
            const OnDevice<T> mine(device, some_values<T>(static_cast<std::size_t>(count), 2));
            device.state_kernels().reduce_parts(device.queue(), dtype, maximum, mine.get(),
                                                mine.get(), parts.get(), stride, ranks, own, count);
            return with_one_nan(mine.values());
          }));
        }
      }
    }
  };
  check(DType::f32, float{}), check(DType::bf16, bf16{}), check(DType::f16, f16{});
  check(DType::f64, double{}), check(DType::i64, std::int64_t{});
}

TEST_P(State, AddsInFixedPoint) {
  for (const std::int64_t count : counts) {
    for (const double loss_scale : {1.0, 65536.0, 1000.0}) {
      for (const bool overwrite : {false, true}) {
        expect_same_bytes(on_both([&](Device& device) {
          const auto size = static_cast<std::size_t>(count);
          const OnDevice<StepBlock> block(device, std::vector{StepBlock{.loss_scale = loss_scale}});
          const OnDevice<float> gradient(device, normal_values<float>(size, 1, 1e-3f));
          const OnDevice<std::int64_t> sums(device, some_values<std::int64_t>(size, 2));
          const OnDevice<std::int64_t> overflows(device, 1);
          device.state_kernels().add_fixed_point(device.queue(), sums.get(), gradient.get(), count,
                                                 block.get(), fixed_point_limit(4), overwrite,
                                                 overflows.get());
          EXPECT_EQ(overflows.values()[0], 0);
          return sums.values();
        }));
      }
    }
  }
}

TEST_P(State, RoundsToTheNearestUnit) {
  // Half units round to even; also numbers around 2^52 and 2^61.
  const float unit = 0x1p-44f;
  const std::vector<float> values = {0.5f * unit, 1.5f * unit, -2.5f * unit, 0.75f * unit,
                                     256.0f,      -300.5f,     131071.0f,    -0.0f};
  expect_same_bytes(on_both([&](Device& device) {
    const OnDevice<StepBlock> block(device, std::vector{StepBlock{}});
    const OnDevice<float> gradient(device, values);
    const OnDevice<std::int64_t> sums(device, values.size()), overflows(device, 1);
    device.state_kernels().add_fixed_point(device.queue(), sums.get(), gradient.get(), 8,
                                           block.get(), fixed_point_limit(1), true,
                                           overflows.get());
    EXPECT_EQ(overflows.values()[0], 0);
    return sums.values();
  }));
}

TEST_P(State, CountsWhatFixedPointCannotHold) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 1e9f}) {
    const auto [expected, got] = on_both([&](Device& device) {
      std::vector<float> values(1000, 0.5f);
      values[999] = bad;
      const OnDevice<StepBlock> block(device, std::vector{StepBlock{}});
      const OnDevice<float> gradient(device, values);
      const OnDevice<std::int64_t> sums(device, values.size());
      const OnDevice<std::int64_t> overflows(device, std::vector<std::int64_t>{5});
      device.state_kernels().add_fixed_point(device.queue(), sums.get(), gradient.get(), 1000,
                                             block.get(), fixed_point_limit(1), true,
                                             overflows.get());
      return overflows.values()[0];
    });
    EXPECT_EQ(expected, 6);
    EXPECT_EQ(got, 6);
  }
}

TEST_P(State, TurnsFixedPointIntoFloatsInPlace) {
  for (const std::int64_t count : {1, 2, 255, 256, 300, 8192, 8193, 40001}) {
    SCOPED_TRACE(count);
    auto [expected, got] = on_both([&](Device& device) {
      const OnDevice<StepBlock> block(device, std::vector{StepBlock{.loss_scale = 1024}});
      const OnDevice<std::int64_t> sums(
          device, some_values<std::int64_t>(static_cast<std::size_t>(count), 1));
      device.state_kernels().fixed_point_to_float(device.queue(), sums.get(), count, block.get());
      return sums.values();
    });
    EXPECT_EQ(std::memcmp(expected.data(), got.data(), static_cast<std::size_t>(4 * count)), 0);
  }
}

TEST_P(State, WidensBf16) {
  for (const std::int64_t count : counts) {
    for (const int offset : {0, 1}) {
      const auto size = static_cast<std::size_t>(count + offset);
      expect_same_bytes(on_both([&](Device& device) {
        const OnDevice<bf16> src(device, normal_values<bf16>(size, 1));
        const OnDevice<float> dst(device, size);
        device.state_kernels().widen(device.queue(), dst.get(), src.get() + offset, count);
        return dst.values();
      }));
    }
  }
}

TEST_P(State, RoundsStochasticallyAsTheCpu) {
  const StepBlock step{.seed = 17, .step = 4, .updates = 3};
  auto values = normal_values<float>(4200, 1);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  values[6] = std::numeric_limits<float>::infinity();
  values[7] = 1e-40f;
  for (const std::int64_t count : counts) {
    for (const std::int64_t first : {0, 8}) {
      for (const auto counter : {Rounding::Counter::step, Rounding::Counter::updates}) {
        expect_same_bytes(on_both([&](Device& device) {
          const OnDevice<StepBlock> block(device, std::vector{step});
          const OnDevice<float> src(device, values);
          const OnDevice<bf16> dst(device, values.size());
          device.state_kernels().narrow(device.queue(), dst.get() + first, src.get() + first, count,
                                        {block.get(), 9, counter, 2, 3}, first);
          return dst.values();
        }));
      }
    }
    for (const bool overwrite : {false, true}) {
      expect_same_bytes(on_both([&](Device& device) {
        const OnDevice<StepBlock> block(device, std::vector{step});
        const OnDevice<float> summands(device, values);
        const OnDevice<bf16> sums(device, normal_values<bf16>(values.size(), 2));
        device.state_kernels().add_narrow(device.queue(), sums.get(), summands.get(), count,
                                          {.block = block.get(), .stream = 1}, overwrite);
        return with_one_nan(sums.values());
      }));
    }
  }
}

// Pieces of 16, 4 and 2 bytes.
TEST_P(State, CopiesPiecesOfRows) {
  struct Pieces {
    std::size_t first;  // in elements of two bytes, like the following
    std::int64_t dst_stride, src_stride, width, rows;
  };
  for (const Pieces& p : {Pieces{8, 32, 24, 16, 5}, Pieces{2, 12, 10, 6, 7}, Pieces{3, 7, 9, 5, 11},
                          Pieces{0, 8, 8, 8, 0}}) {
    expect_same_bytes(on_both([&](Device& device) {
      const OnDevice<bf16> src(device, normal_values<bf16>(300, 1));
      const OnDevice<bf16> dst(device, normal_values<bf16>(300, 2));
      device.state_kernels().copy_rows(device.queue(), dst.get() + p.first, 2 * p.dst_stride,
                                       src.get() + p.first, 2 * p.src_stride, 2 * p.width, p.rows);
      return dst.values();
    }));
  }
}

}  // namespace
}  // namespace trireme
