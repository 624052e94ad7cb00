// Tests of optimizer steps and of a step's totals on the GPU against the CPU.
#include <cmath>
#include <limits>

#include "backend/gpu/both_devices.h"

namespace trireme {
namespace {

class OptimizerStep : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(OptimizerStep);

const StepBlock step{.updates = 3,
                     .lr = 0.01,
                     .update_scale = 0.5,
                     .bias_correction1 = 1 - 0.9 * 0.9 * 0.9,
                     .bias_correction2 = 1 - 0.999 * 0.999 * 0.999};
constexpr std::int64_t count = 1003;

// Returns parameters, states and the compute copy, one after the other.
template <class T>
std::vector<float> all_of(std::initializer_list<const OnDevice<float>*> states,
                          const OnDevice<T>& compute) {
  std::vector<float> all = as_floats(compute.values());
  for (const OnDevice<float>* state : states) {
    const auto values = state->values();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

template <class T>
std::vector<float> adam_on(Device& device, bool decoupled, bool compute, int offset) {
  const OnDevice<StepBlock> block(device, std::vector{step});
  const OnDevice<float> master(device, normal_values<float>(count, 1));
  const OnDevice<float> m(device, normal_values<float>(count, 2, 0.1f));
  const OnDevice<float> v(device, std::vector<float>(count, 0.01f));
  const OnDevice<float> grad(device, normal_values<float>(count, 3));
  const OnDevice<T> copy(device, count);
  const AdamStep rule{block.get(), 0.9, 0.999, 1e-8, 0.1, decoupled};
  device.kernels<T>().adam(device.queue(), rule, master.get() + offset, m.get() + offset,
                           v.get() + offset, grad.get() + offset,
                           compute ? copy.get() + offset : nullptr, count - offset);
  return all_of<T>({&master, &m, &v}, copy);
}

TEST_P(OptimizerStep, OfAdamIsTheCpus) {
  for_storage_types([&]<class T>(T) {
    for (const bool decoupled : {false, true}) {
      for (const int offset : {0, 3}) {
        const bool compute = offset == 0 || decoupled;
        expect_close(on_both([&](Device& d) { return adam_on<T>(d, decoupled, compute, offset); }),
                     std::is_same_v<T, float> ? 1e-6 : tolerance_of<T>());
      }
    }
  });
}

// Each element gets the same bits, however a range is split and aligned.
TEST_P(OptimizerStep, DoesNotDependOnTheCut) {
  const auto whole = adam_on<bf16>(gpu_, true, true, 0);
  const auto rest = adam_on<bf16>(gpu_, true, true, 3);
  for (std::size_t part = 0; part < 4; ++part) {
    for (std::size_t i = part * count + 3; i < (part + 1) * count; ++i)
      ASSERT_EQ(whole[i], rest[i]) << i;
  }
}

TEST_P(OptimizerStep, OfSgdIsTheCpus) {
  for_storage_types([&]<class T>(T) {
    for (const bool momentum : {false, true}) {
      expect_close(on_both([&](Device& device) {
                     const OnDevice<StepBlock> block(device, std::vector{step});
                     const OnDevice<float> master(device, normal_values<float>(count, 1));
                     const OnDevice<float> velocity(device, normal_values<float>(count, 2));
                     const OnDevice<float> grad(device, normal_values<float>(count, 3));
                     const OnDevice<T> copy(device, count);
                     device.kernels<T>().sgd(device.queue(),
                                             {block.get(), momentum ? 0.9 : 0.0, 0.01},
                                             master.get(), momentum ? velocity.get() : nullptr,
                                             grad.get(), momentum ? copy.get() : nullptr, count);
                     return all_of<T>({&master, &velocity}, copy);
                   }),
                   std::is_same_v<T, float> ? 1e-6 : tolerance_of<T>());
    }
  });
}

TEST_P(OptimizerStep, OfLionIsTheCpus) {
  for_storage_types([&]<class T>(T) {
    for (const bool compute : {false, true}) {
      expect_close(on_both([&](Device& device) {
                     const OnDevice<StepBlock> block(device, std::vector{step});
                     const OnDevice<float> master(device, normal_values<float>(count, 1));
                     const OnDevice<float> m(device, normal_values<float>(count, 2));
                     auto gradient = normal_values<float>(count, 3);
                     std::fill_n(gradient.begin(), 20, 0.0f);
                     const OnDevice<float> grad(device, gradient);
                     const OnDevice<T> copy(device, count);
                     device.kernels<T>().lion(device.queue(), {block.get(), 0.9, 0.99, 0.1},
                                              master.get(), m.get(), grad.get(),
                                              compute ? copy.get() : nullptr, count);
                     return all_of<T>({&master, &m}, copy);
                   }),
                   std::is_same_v<T, float> ? 1e-6 : tolerance_of<T>());
    }
  });
}

// The two elementwise parts of Muon's step.
TEST_P(OptimizerStep, OfMuonIsTheCpus) {
  for_storage_types([&]<class T>(T) {
    for (const bool nesterov : {false, true}) {
      expect_close(on_both([&](Device& device) {
                     const OnDevice<StepBlock> block(device, std::vector{step});
                     const OnDevice<float> master(device, normal_values<float>(count, 1));
                     const OnDevice<float> m(device, normal_values<float>(count, 2));
                     const OnDevice<float> grad(device, normal_values<float>(count, 3));
                     const OnDevice<T> copy(device, count);
                     const Kernels<T>& kernels = device.kernels<T>();
                     kernels.momentum(device.queue(), {block.get(), 0.95, nesterov}, m.get(),
                                      grad.get(), count);
                     kernels.apply_direction(device.queue(), {block.get(), 2.5, 0.1}, master.get(),
                                             grad.get(), nesterov ? copy.get() : nullptr, count);
                     return all_of<T>({&master, &m, &grad}, copy);
                   }),
                   std::is_same_v<T, float> ? 1e-6 : tolerance_of<T>());
    }
  });
}

// The step's scalars are in device memory and change between two identical launches.
TEST_P(OptimizerStep, ReadsTheScalarsOfEachStep) {
  expect_close(on_both([&](Device& device) {
                 const OnDevice<float> master(device, normal_values<float>(count, 1));
                 const OnDevice<float> m(device, count), v(device, count), copy(device, count);
                 const OnDevice<float> grad(device, normal_values<float>(count, 3));
                 OnDevice<StepBlock> block(device, std::vector{step});
                 for (const double lr : {0.01, 0.1}) {
                   StepBlock now = step;
                   now.lr = lr;
                   block.set({now});
                   device.kernels<float>().adam(
                       device.queue(), {block.get(), 0.9, 0.999, 1e-8, 0.1, true}, master.get(),
                       m.get(), v.get(), grad.get(), copy.get(), count);
                 }
                 return all_of<float>({&master, &m, &v}, copy);
               }),
               1e-6);
}

class Totals : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(Totals);

double squares_on(Device& device, const std::vector<float>& values,
                  const std::vector<std::int64_t>& cuts, std::int64_t block = square_block) {
  const OnDevice<float> x(device, values);
  const OnDevice<ExactSum> total(device, 1);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    device.kernels<float>().add_squares(device.queue(), total.get(), x.get() + cuts[i],
                                        cuts[i + 1] - cuts[i], block);
  return total.values()[0].value();
}

TEST_P(Totals, OfSquaresAreTheCpusForEveryCut) {
  auto values = normal_values<float>(70001, 1);
  values[17] = 3e38f, values[300] = 1e-30f;
  const auto [expected, got] = on_both([&](Device& d) {
    return squares_on(d, values, {0, 70001});
  });
  EXPECT_NEAR(got / expected, 1, 1e-14);
  EXPECT_EQ(got, squares_on(gpu_, values, {0, 256, 2048, 2304, 65536, 70001}));
  EXPECT_EQ(squares_on(gpu_, std::vector<float>(1000), {0, 1000}), 0);
  for (const std::int64_t block : {4, 32}) {
    const auto [all, cut] = std::pair{squares_on(gpu_, values, {0, 70001}, block),
                                      squares_on(gpu_, values, {0, 32, 2048, 70001}, block)};
    EXPECT_EQ(all, cut);
    EXPECT_NEAR(all / expected, 1, 1e-14);
  }
  values[69999] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(squares_on(gpu_, values, {0, 70001})));
}

// Both wave widths add the same lanes in the same order.
TEST_P(Totals, OfSquaresDoNotDependOnTheWave) {
  const auto values = normal_values<float>(5000, 1);
  EXPECT_EQ(
      squares_on(gpu_, values, {0, 5000}),
      squares_on(plugin_device("emulated", {.device = DeviceKind::emulated}), values, {0, 5000}));
}

TEST_P(Totals, OfLossesAreTheCpus) {
  for (const std::size_t rows : {1, 300, 9001}) {
    for (const bool weighted : {false, true}) {
      auto losses = normal_values<float>(rows, 1);
      std::vector<float> weights(rows, 0.5f);
      if (weighted && rows > 1) {
        weights[1] = 0;
        losses[1] = std::numeric_limits<float>::quiet_NaN();  // must not be read
      }
      const auto [expected, got] = on_both([&](Device& device) {
        const OnDevice<float> l(device, losses), w(device, weights);
        const OnDevice<ExactSum> sums(device, 2);
        for (int twice = 0; twice < 2; ++twice)
          device.kernels<float>().add_losses(device.queue(), sums.get(), sums.get() + 1, l.get(),
                                             weighted ? w.get() : nullptr,
                                             static_cast<std::int64_t>(rows));
        return std::pair{sums.values()[0].value(), sums.values()[1].value()};
      });
      EXPECT_NEAR(got.first, expected.first, 1e-12 * static_cast<double>(rows));
      EXPECT_EQ(got.second, expected.second);
    }
  }
}

}  // namespace
}  // namespace trireme
