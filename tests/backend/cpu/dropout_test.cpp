// Dropout: which elements fall is a pure function of the element, with the right probability.
#include "backend/cpu/kernel_test.h"

namespace trireme::cpu {
namespace {

// dropout(1) of every element: 0 where dropped, else the multiplier.
std::vector<double> multipliers(Isa set, const Dropout& dropout, std::int64_t rows,
                                std::int64_t cols) {
  const Guarded<double> ones(std::vector<double>(rows * cols, 1.0));
  Guarded<double> y(rows * cols);
  kernels<double>(set).add(queue(), y.data(), nullptr, ones.data(), rows, cols, dropout);
  EXPECT_TRUE(y.intact());
  return y.values();
}

constexpr StepBlock block{.seed = 0x123456789abcdef0, .step = 41};

Dropout make(float probability, const std::vector<std::int64_t>& samples, std::int64_t seq) {
  Dropout d{{.probability = probability, .site = 7}, &block};
  d.sample_ids = samples.data();
  d.seq_length = seq;
  return d;
}

// The definition, element by element, with the generator of base/random.h.
double reference(const Dropout& d, std::int64_t sample, std::int64_t position,
                 std::int64_t column) {
  const Philox site = philox(block.seed, {static_cast<std::uint32_t>(block.step),
                                          static_cast<std::uint32_t>(block.step >> 32), d.site, 0});
  const std::uint64_t key = site[0] | std::uint64_t{site[1]} << 32;
  const auto counter = static_cast<std::uint32_t>(column / 128 * 16 + column % 16);
  const auto draw = column % 128 / 16;
  const Philox words =
      philox(key, {counter, static_cast<std::uint32_t>(position),
                   static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32)});
  const std::uint32_t bits = words[draw / 2] >> (draw % 2 ? 16 : 0) & 0xffff;
  const auto threshold = static_cast<std::uint32_t>(std::lrint((1 - d.probability) * 65536));
  return bits < threshold ? 65536.0 / threshold : 0;
}

TEST(DropoutMask, MatchesItsDefinition) {
  const std::vector<std::int64_t> samples = {3, 1, 0x500000002};
  const std::int64_t seq = 4, cols = 300;
  with_sets([&](Isa set) {
    for (const float probability : {0.1f, 0.5f, 0.9f}) {
      Dropout d = make(probability, samples, seq);
      d.first_row = 3;
      d.first_column = 77;
      const auto got = multipliers(set, d, 9, cols);
      for (std::int64_t r = 0; r < 9; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
          ASSERT_EQ(got[r * cols + c], reference(d, samples[(3 + r) / seq], (3 + r) % seq, 77 + c));
        }
      }
    }
  });
}

TEST(DropoutMask, DoesNotKnowTheLayout) {
  const std::vector<std::int64_t> samples = {5, 9};
  const std::int64_t seq = 6, cols = 400;
  with_sets([&](Isa set) {
    const auto whole = multipliers(set, make(0.25f, samples, seq), 2 * seq, cols);
    const auto at = [&](std::int64_t sample, std::int64_t position, std::int64_t column) {
      return whole[(sample * seq + position) * cols + column];
    };
    // The samples in another order, a block of rows that reaches from one to the next, a slice of
    // the columns.
    const std::vector<std::int64_t> swapped = {9, 5};
    for (const std::int64_t first_column : {0, 128, 131}) {
      Dropout d = make(0.25f, swapped, seq);
      d.first_row = 4;
      d.first_column = first_column;
      const std::int64_t width = cols - first_column;
      const auto part = multipliers(set, d, 6, width);
      for (std::int64_t r = 0; r < 6; ++r) {
        for (std::int64_t c = 0; c < width; ++c) {
          ASSERT_EQ(part[r * width + c], at(1 - (4 + r) / seq, (4 + r) % seq, first_column + c));
        }
      }
    }
  });
}

TEST(DropoutMask, HasTheRightProbabilityAndNoPattern) {
  std::vector<std::int64_t> samples(16);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<std::int64_t>(i);
  const std::int64_t seq = 64, cols = 512, rows = 16 * seq, count = rows * cols;
  for (const float probability : {0.01f, 0.1f, 0.5f}) {
    Dropout d = make(probability, samples, seq);
    const auto mask = multipliers(isa(), d, rows, cols);
    constexpr StepBlock next{.seed = block.seed, .step = block.step + 1};
    d.block = &next;
    const auto next_step = multipliers(isa(), d, rows, cols);
    d.block = &block;
    d.site = 8;
    const auto next_site = multipliers(isa(), d, rows, cols);
    double sum = 0;
    std::int64_t dropped = 0, beside = 0, below = 0, later = 0, elsewhere = 0;
    std::vector<int> by_column(cols, 0);
    for (std::int64_t i = 0; i < count; ++i) {
      sum += mask[i];
      if (mask[i] != 0) continue;
      ++dropped;
      ++by_column[i % cols];
      if (i + 1 < count) beside += mask[i + 1] == 0;
      if (i + cols < count) below += mask[i + cols] == 0;
      later += next_step[i] == 0;
      elsewhere += next_site[i] == 0;
    }
    const double n = static_cast<double>(count);
    const auto near = [&](double got, double p) {
      return std::abs(got - n * p) < 5 * std::sqrt(n * p * (1 - p));
    };
    EXPECT_TRUE(near(static_cast<double>(dropped), probability)) << dropped;
    EXPECT_NEAR(sum / n, 1, 5 * std::sqrt(probability / (1 - probability) / n));
    const double both = static_cast<double>(probability) * probability;
    for (const std::int64_t pairs : {beside, below, later, elsewhere}) {
      EXPECT_TRUE(near(static_cast<double>(pairs), both)) << pairs;
    }
    const double m = static_cast<double>(rows);
    for (const int in_column : by_column) {
      EXPECT_NEAR(in_column, m * probability, 6 * std::sqrt(m * probability) + 3);
    }
  }
}

template <class T>
class DropoutAdd : public testing::Test {};
TYPED_TEST_SUITE(DropoutAdd, StorageTypes);

TYPED_TEST(DropoutAdd, AllTypesDropTheSameElements) {
  using T = TypeParam;
  const std::vector<std::int64_t> samples = {2, 3};
  const Dropout d = make(0.2f, samples, 5);
  with_sets([&](Isa set) {
    for (const std::int64_t cols : {1, 3, 17, 130, 769}) {
      const std::int64_t rows = 10, count = rows * cols;
      const auto mask = multipliers(set, d, rows, cols);
      const auto a = random_values<T>(count, 1), b = random_values<T>(count, 2);
      std::vector<double> want(count), want_alone(count);
      for (std::int64_t i = 0; i < count; ++i) {
        want_alone[i] = b[i] * mask[i];
        want[i] = a[i] + want_alone[i];
      }
      const Guarded<T> first(a), second(b);
      Guarded<T> y(count), alone(count), over_b = second;
      const auto& k = kernels<T>(set);
      k.add(queue(), y.data(), first.data(), second.data(), rows, cols, d);
      k.add(queue(), alone.data(), nullptr, second.data(), rows, cols, d);
      k.add(queue(), over_b.data(), nullptr, over_b.data(), rows, cols, d);
      EXPECT_TRUE(close(y, want, 4));
      EXPECT_TRUE(close(alone, want_alone, 4));
      EXPECT_TRUE(alone.same_bits(over_b));
    }
  });
}

TEST(DropoutEdges, CertainDropGivesZerosAndNoneChangesNothing) {
  const std::vector<std::int64_t> samples = {2};
  with_sets([&](Isa set) {
    for (const double m : multipliers(set, make(1.0f, samples, 3), 3, 50)) EXPECT_EQ(m, 0);
    for (const double m : multipliers(set, make(1e-9f, samples, 3), 3, 50)) EXPECT_EQ(m, 1);
  });
}

}  // namespace
}  // namespace trireme::cpu
