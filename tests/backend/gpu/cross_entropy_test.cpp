// Tests of softmax statistics, losses and logit gradients on the GPU against the CPU.
#include <cmath>
#include <limits>

#include "backend/gpu/both_devices.h"

namespace trireme {
namespace {

class CrossEntropy : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(CrossEntropy);

struct Logits {
  std::int64_t vocab, ld, first_id;
};
constexpr std::int64_t rows = 6;
const std::vector<std::int32_t> targets = {3, 0, 100, 2499, -1, 77};

constexpr Logits shapes[] = {{1, 8, 0}, {101, 101, 0}, {2500, 2560, 0}, {70, 80, 50}};

TEST_P(CrossEntropy, HasTheCpusStatistics) {
  for_storage_types([&]<class T>(T) {
    for (const Logits& shape : shapes) {
      SCOPED_TRACE(shape.vocab);
      const auto logits = normal_values<T>(static_cast<std::size_t>(rows * shape.ld), 1, 4);
      const auto run = [&](Device& device) {
        const OnDevice<T> x(device, logits);
        const OnDevice<std::int32_t> t(device, targets);
        const OnDevice<float> largest(device, rows), sum(device, rows), target(device, rows);
        const OnDevice<float> loss(device, rows), lse(device, rows);
        const Kernels<T>& kernels = device.kernels<T>();
        kernels.softmax_stats(device.queue(), largest.get(), sum.get(), target.get(), x.get(),
                              t.get(), rows, shape.vocab, shape.ld, shape.first_id);
        kernels.token_loss(device.queue(), loss.get(), lse.get(), largest.get(), sum.get(),
                           target.get(), rows);
        return std::array{largest.values(), target.values(), sum.values(), loss.values(),
                          lse.values()};
      };
      const auto [expected, got] = on_both(run);
      expect_equal(std::pair{expected[0], got[0]});
      expect_equal(std::pair{expected[1], got[1]});
      for (std::size_t i = 2; i < expected.size(); ++i)
        expect_close(std::pair{expected[i], got[i]}, 1e-6);
    }
  });
}

TEST_P(CrossEntropy, ShowsWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> logits(4 * 24, -1.0f);
  std::fill_n(logits.begin(), 24, -infinity);
  logits[24 + 5] = infinity;
  logits[48 + 23] = nan;
  std::fill_n(logits.begin() + 72, 24, -infinity);
  logits[72 + 9] = 2;
  const auto [expected, got] = on_both([&](Device& device) {
    const OnDevice<float> x(device, logits), largest(device, 4), sum(device, 4), target(device, 4);
    const OnDevice<std::int32_t> t(device, std::vector<std::int32_t>(4));
    device.kernels<float>().softmax_stats(device.queue(), largest.get(), sum.get(), target.get(),
                                          x.get(), t.get(), 4, 24, 24, 0);
    return std::pair{largest.values(), sum.values()};
  });
  EXPECT_EQ(expected.first, got.first);
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(std::isnan(expected.second[r]), std::isnan(got.second[r])) << r;
    if (std::isnan(got.second[r])) continue;
    EXPECT_EQ(expected.second[r], got.second[r]) << r;
  }
  EXPECT_TRUE(std::isnan(got.second[1]) && std::isnan(got.second[2]));
}

TEST_P(CrossEntropy, HasTheCpusGradient) {
  const std::vector<float> lse = {4, 5, 6.5f, 4, 9, 7}, weights = {1, 0, 0.5f, 2, 1, 1};
  for_storage_types([&]<class T>(T) {
    for (const Logits& shape : shapes) {
      SCOPED_TRACE(shape.vocab);
      const auto logits = normal_values<T>(static_cast<std::size_t>(rows * shape.ld), 1);
      expect_close(on_both([&](Device& device) {
                     const OnDevice<T> x(device, logits);
                     const OnDevice<std::int32_t> t(device, targets);
                     const OnDevice<float> l(device, lse), w(device, weights);
                     const OnDevice<StepBlock> block(device,
                                                     std::vector{StepBlock{.grad_scale = 3}});
                     device.kernels<T>().cross_entropy_grad(device.queue(), x.get(), l.get(),
                                                            t.get(), w.get(), block.get(), rows,
                                                            shape.vocab, shape.ld, shape.first_id);
                     return x.values();
                   }),
                   tolerance_of<T>());
    }
  });
}

TEST_P(CrossEntropy, InOneKernelHasTheBitsOfThree) {
  for_storage_types([&]<class T>(T) {
    for (const Logits& shape : shapes) {
      SCOPED_TRACE(shape.vocab);
      const auto logits = normal_values<T>(static_cast<std::size_t>(rows * shape.ld), 1, 4);
      const OnDevice<T> apart(gpu_, logits), together(gpu_, logits);
      const OnDevice<std::int32_t> t(gpu_, targets);
      const OnDevice<float> w(gpu_, std::vector<float>{1, 0, 0.5f, 2, 1, 1});
      const OnDevice<StepBlock> block(gpu_, std::vector{StepBlock{.grad_scale = 3}});
      const OnDevice<float> largest(gpu_, rows), sum(gpu_, rows), target(gpu_, rows),
          lse(gpu_, rows), loss(gpu_, rows), loss_together(gpu_, rows);
      const Kernels<T>& k = gpu_.kernels<T>();
      Queue& queue = gpu_.queue();
      k.softmax_stats(queue, largest.get(), sum.get(), target.get(), apart.get(), t.get(), rows,
                      shape.vocab, shape.ld, shape.first_id);
      k.token_loss(queue, loss.get(), lse.get(), largest.get(), sum.get(), target.get(), rows);
      k.cross_entropy_grad(queue, apart.get(), lse.get(), t.get(), w.get(), block.get(), rows,
                           shape.vocab, shape.ld, shape.first_id);
      k.classifier(queue, together.get(), loss_together.get(), t.get(), w.get(), block.get(), rows,
                   shape.vocab, shape.ld, shape.first_id);
      expect_equal(std::pair{apart.values(), together.values()});
      expect_equal(std::pair{loss.values(), loss_together.values()});
    }
  });
}

TEST_P(CrossEntropy, BringsSumsToTheLargestOfAllRanks) {
  expect_close(on_both([&](Device& device) {
                 const std::size_t count = 301;
                 const OnDevice<float> sums(device, 2 * count);
                 const OnDevice<float> sum(device, normal_values<float>(count, 1));
                 const OnDevice<float> target(device, normal_values<float>(count, 2));
                 const OnDevice<float> local(device, std::vector<float>(count, 1.5f));
                 const OnDevice<float> largest(device, std::vector<float>(count, 2.75f));
                 device.kernels<float>().softmax_rescale(device.queue(), sums.get(), sum.get(),
                                                         target.get(), local.get(), largest.get(),
                                                         count);
                 return sums.values();
               }),
               1e-6);
}

}  // namespace
}  // namespace trireme
