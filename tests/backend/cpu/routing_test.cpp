// Routers and dispatch against plain rules: choice, weights, losses, order and capacity.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backend/cpu/device.h"
#include "base/random.h"

namespace trireme {
namespace {

constexpr std::int64_t rows = 24, experts = 8, top_k = 3, seq = 12;

const Kernels<double>& kernels() {
  return cpu::device().kernels<double>();
}

RouterShape shape_of(bool sigmoid, bool normalize, std::int64_t groups = 1,
                     std::int64_t top_groups = 1) {
  return {{top_k, sigmoid, normalize, 1.0, groups, top_groups}, rows, experts};
}

std::vector<double> random_logits() {
  std::vector<double> logits(rows * experts);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = 2 * normal(5, 1, i);
  return logits;
}

struct Routed {
  std::vector<double> weights = std::vector<double>(rows * top_k);
  std::vector<std::int32_t> chosen = std::vector<std::int32_t>(rows * top_k);
};

Routed route(const RouterShape& shape, const std::vector<double>& logits,
             const double* bias = nullptr) {
  Routed routed;
  kernels().route(cpu::queue(), shape, routed.weights.data(), routed.chosen.data(), logits.data(),
                  bias);
  return routed;
}

struct Placed {
  std::vector<std::int32_t> places = std::vector<std::int32_t>(rows * top_k);
  std::vector<std::int32_t> offsets = std::vector<std::int32_t>(experts + 1);
};

Placed dispatch(const Routed& routed, std::int64_t capacity, bool by_weight) {
  Placed placed;
  std::vector<std::int32_t> workspace(rows * top_k);
  kernels().dispatch(cpu::queue(), {{experts, capacity, seq, by_weight}, rows, top_k},
                     placed.places.data(), placed.offsets.data(), routed.chosen.data(),
                     routed.weights.data(), workspace.data());
  return placed;
}

TEST(Router, ChoosesTheLargestAndOfEqualOnesTheFirst) {
  std::vector<double> logits(rows * experts, 0.0);  // all equal
  logits[1 * experts + 6] = 1;
  const Routed routed = route(shape_of(false, true), logits);
  EXPECT_EQ((std::vector<std::int32_t>{0, 1, 2}),
            std::vector(routed.chosen.begin(), routed.chosen.begin() + 3));
  EXPECT_EQ((std::vector<std::int32_t>{0, 1, 6}),
            std::vector(routed.chosen.begin() + 3, routed.chosen.begin() + 6));
}

TEST(Router, NormalizedSoftmaxWeighsTheChosenAlone) {
  const std::vector<double> logits = random_logits();
  const Routed routed = route(shape_of(false, true), logits);
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int j = 0; j < top_k; ++j) sum += std::exp(logits[r * experts + routed.chosen[r * 3 + j]]);
    for (int j = 0; j < top_k; ++j) {
      EXPECT_NEAR(routed.weights[r * 3 + j],
                  std::exp(logits[r * experts + routed.chosen[r * 3 + j]]) / sum, 1e-14);
    }
  }
}

TEST(Router, SigmoidScoresAreDividedByTheSumOfTheChosen) {
  const std::vector<double> logits = random_logits();
  const Routed bare = route(shape_of(true, false), logits);
  const Routed shared = route(shape_of(true, true), logits);
  ASSERT_EQ(bare.chosen, shared.chosen);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* w = bare.weights.data() + r * top_k;
    EXPECT_NEAR(w[0], 1 / (1 + std::exp(-logits[r * experts + bare.chosen[r * top_k]])), 1e-15);
    EXPECT_NEAR(shared.weights[r * top_k], w[0] / (w[0] + w[1] + w[2] + 1e-20), 1e-15);
  }
}

// Four groups of two, of which two are open: a group counts with its best score (3 / 2 rounds
// down).
TEST(Router, StaysWithinTheBestGroups) {
  const std::vector<double> logits = random_logits();
  RouterShape shape = shape_of(true, true, 4, 2);
  const Routed routed = route(shape, logits);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* row = logits.data() + r * experts;
    std::vector<int> order(4);
    std::iota(order.begin(), order.end(), 0);
    const auto best = [&](int g) { return std::max(row[2 * g], row[2 * g + 1]); };
    std::sort(order.begin(), order.end(), [&](int a, int b) { return best(a) > best(b); });
    for (int j = 0; j < top_k; ++j) {
      const int group = routed.chosen[r * top_k + j] / 2;
      EXPECT_TRUE(group == order[0] || group == order[1]);
    }
  }
}

// Means over a sequence, with the choices counted as constants, as training sees them.
double losses_of(const std::vector<double>& logits, const std::vector<std::int32_t>& chosen,
                 bool sigmoid, double aux, double z) {
  double total = 0;
  for (std::int64_t first = 0; first < rows; first += seq) {
    std::vector<double> p(experts), f(experts);
    double squares = 0;
    for (std::int64_t r = first; r < first + seq; ++r) {
      const double* row = logits.data() + r * experts;
      std::vector<double> score(experts);
      double sum = 0, exps = 0;
      for (int e = 0; e < experts; ++e) {
        exps += std::exp(row[e]);
        sum += score[e] = sigmoid ? 1 / (1 + std::exp(-row[e])) : std::exp(row[e]);
      }
      for (int e = 0; e < experts; ++e) p[e] += score[e] / sum / seq;
      for (int j = 0; j < top_k; ++j) f[chosen[r * top_k + j]] += 1.0 / (top_k * seq);
      squares += std::log(exps) * std::log(exps) / seq;
    }
    double balance = 0;
    for (int e = 0; e < experts; ++e) balance += f[e] * p[e];
    total += aux * experts * balance + z * squares;
  }
  return total;
}

class RouterLoss : public testing::TestWithParam<bool> {};

TEST_P(RouterLoss, HasItsValueAndItsGradient) {
  const bool sigmoid = GetParam();
  const RouterShape shape = shape_of(sigmoid, true);
  std::vector<double> logits = random_logits();
  const Routed routed = route(shape, logits);
  const Placed placed = dispatch(routed, 0, true);
  const std::vector<double> dweights(rows * top_k, 0.0);
  std::vector<double> dlogits(rows * experts);
  struct {
    ExpertTotals totals;
    std::int64_t choices[2 * (experts + 1)] = {};  // of two layers
  } memory;
  StepBlock block;
  block.sample_scale = 0.25;
  block.experts = &memory.totals;
  block.most_experts = experts;
  constexpr double aux = 0.3, z = 0.7, step = 1e-6;
  kernels().route_grad(cpu::queue(), shape, {aux, z, seq, seq},
                       {.dlogits = dlogits.data(),
                        .dweights = dweights.data(),
                        .logits = logits.data(),
                        .chosen = routed.chosen.data(),
                        .places = placed.places.data(),
                        .block = &block,
                        .layer = 1});
  EXPECT_NEAR(memory.totals.aux_loss.value() + memory.totals.z_loss.value(),
              losses_of(logits, routed.chosen, sigmoid, aux, z), 1e-12);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double kept = logits[i];
    logits[i] = kept + step;
    const double above = losses_of(logits, routed.chosen, sigmoid, aux, z);
    logits[i] = kept - step;
    const double below = losses_of(logits, routed.chosen, sigmoid, aux, z);
    logits[i] = kept;
    ASSERT_NEAR(dlogits[i], 0.25 * (above - below) / (2 * step), 1e-8) << i;
  }
  const std::int64_t* counts = memory.choices + experts + 1;  // of layer 1
  for (int e = 0; e < experts; ++e)
    EXPECT_EQ(counts[e], std::count(routed.chosen.begin(), routed.chosen.end(), e));
  EXPECT_EQ(counts[experts], 0);
  EXPECT_EQ(std::accumulate(memory.choices, memory.choices + experts + 1, std::int64_t{0}), 0);
}

INSTANTIATE_TEST_SUITE_P(Scores, RouterLoss, testing::Bool());

// With every expert chosen equally often and equal scores, the loss is its coefficient.
TEST(RouterLoss, IsItsCoefficientAtPerfectBalance) {
  constexpr std::int64_t all = experts;
  const RouterShape shape = {{all, false, true, 1.0, 1, 1}, rows, experts};
  const std::vector<double> logits(rows * experts, 0.5), dweights(rows * all);
  std::vector<double> dlogits(rows * experts), weights(rows * all);
  std::vector<std::int32_t> chosen(rows * all), places(rows * all);
  kernels().route(cpu::queue(), shape, weights.data(), chosen.data(), logits.data(), nullptr);
  struct {
    ExpertTotals totals;
    std::int64_t choices[experts + 1] = {};
  } memory;
  StepBlock block;
  block.experts = &memory.totals;
  block.most_experts = experts;
  kernels().route_grad(cpu::queue(), shape, {0.01, 0, rows, seq},
                       {.dlogits = dlogits.data(),
                        .dweights = dweights.data(),
                        .logits = logits.data(),
                        .chosen = chosen.data(),
                        .places = places.data(),
                        .block = &block});
  // One unit of two sequences.
  EXPECT_NEAR(memory.totals.aux_loss.value(), 0.01 * rows / seq, 1e-15);
}

// Ranks that share sequences add up how often experts were chosen; then each makes the losses and
// gradients of its own rows, a few at a time. Here rows 6 to 18 are another rank's: of both
// sequences.
TEST(Router, PartsOfSequencesHaveTheLossesOfTheWhole) {
  const RouterShape whole = shape_of(true, true, 4, 2);
  const std::vector<double> logits = random_logits();
  const Routed routed = route(whole, logits);
  const Placed placed = dispatch(routed, 0, true);
  const std::vector<double> dweights(rows * top_k, 0.5);
  struct Made {
    ExpertTotals totals;
    std::int64_t choices[experts + 1] = {};
    std::vector<double> dlogits = std::vector<double>(rows * experts);
  } expected, made;
  StepBlock block;
  block.sample_scale = 0.25;
  const auto run = [&](Made& into, const RouterLosses& losses, std::int64_t first,
                       std::int64_t count, const std::int64_t* counts) {
    RouterShape part = whole;
    part.rows = count;
    block.experts = &into.totals;
    block.most_experts = experts;
    kernels().route_grad(cpu::queue(), part, losses,
                         {.dlogits = into.dlogits.data() + first * experts,
                          .dweights = dweights.data() + first * top_k,
                          .logits = logits.data() + first * experts,
                          .chosen = routed.chosen.data() + first * top_k,
                          .places = placed.places.data() + first * top_k,
                          .counts = counts,
                          .block = &block});
  };
  RouterLosses losses{0.3, 0.7, seq, seq};
  run(expected, losses, 0, rows, nullptr);
  std::vector<std::int64_t> counts(2 * experts);
  const std::pair<std::int64_t, std::int64_t> parts[] = {{0, 6}, {6, 12}, {18, 6}};
  for (const auto& [first, count] : parts) {
    RouterShape part = whole;
    part.rows = count;
    losses.first_row = first;
    std::vector<std::int64_t> own(2 * experts, -1);
    kernels().routed_tokens(cpu::queue(), part, losses, 2, false, own.data(),
                            logits.data() + first * experts, routed.chosen.data() + first * top_k);
    for (std::size_t i = 0; i < own.size(); ++i) counts[i] += own[i];
  }
  losses.block_rows = 3;
  for (const auto& [first, count] : parts) {
    losses.first_row = first;
    run(made, losses, first, count, counts.data());
  }
  EXPECT_EQ(made.dlogits, expected.dlogits);
  EXPECT_NEAR(made.totals.aux_loss.value(), expected.totals.aux_loss.value(), 1e-15);
  EXPECT_NEAR(made.totals.z_loss.value(), expected.totals.z_loss.value(), 1e-14);
}

// A bias is added to the softmax over all experts, also where only the chosen ones share the
// weight.
TEST(Router, ABiasChoosesBySoftmaxScores) {
  const std::vector<double> logits = random_logits();
  for (const bool normalize : {false, true}) {
    std::vector<double> bias(experts, 0.0);
    bias[2] = 0.25;
    const Routed routed = route(shape_of(false, normalize), logits, bias.data());
    int moved = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const double* row = logits.data() + r * experts;
      double sum = 0, of_chosen = 0;
      for (int e = 0; e < experts; ++e) sum += std::exp(row[e]);
      std::vector<std::int32_t> order(experts), plain(experts);
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](int a, int b) {
        return std::exp(row[a]) / sum + bias[a] > std::exp(row[b]) / sum + bias[b];
      });
      order.resize(top_k);
      std::sort(order.begin(), order.end());
      const auto* chosen = routed.chosen.data() + r * top_k;
      ASSERT_EQ(std::vector(chosen, chosen + top_k), order);
      for (const std::int32_t e : order) of_chosen += std::exp(row[e]);
      for (int j = 0; j < top_k; ++j) {
        EXPECT_NEAR(routed.weights[r * top_k + j],
                    std::exp(row[order[j]]) / (normalize ? of_chosen : sum), 1e-14);
      }
      std::iota(plain.begin(), plain.end(), 0);
      std::sort(plain.begin(), plain.end(), [&](int a, int b) { return row[a] > row[b]; });
      plain.resize(top_k);
      std::sort(plain.begin(), plain.end());
      moved += plain != order;
    }
    EXPECT_GT(moved, 0);
  }
}

// The bias decides between groups too.
TEST(Router, ABiasOpensTheGroupOfItsExpert) {
  const std::vector<double> logits = random_logits();
  for (const bool sigmoid : {false, true}) {
    std::vector<double> bias(experts, 0.0);
    bias[5] = 10;  // in the third of four groups
    const Routed routed = route(shape_of(sigmoid, true, 4, 2), logits, bias.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto* chosen = routed.chosen.data() + r * top_k;
      EXPECT_NE(std::find(chosen, chosen + top_k, 5), chosen + top_k);
    }
  }
}

// A bias moves the choice and no weight; its gradient counts what each expert kept.
TEST(Router, ABiasChoosesAndIsMovedByTheLoad) {
  const std::vector<double> logits = random_logits();
  std::vector<double> bias(experts, 0.0);
  bias[5] = 10;
  const RouterShape shape = shape_of(true, false);
  const Routed routed = route(shape, logits, bias.data());
  const Placed placed = dispatch(routed, 0, true);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto* first = routed.chosen.data() + r * top_k;
    const auto at = std::find(first, first + top_k, 5) - first;
    ASSERT_LT(at, top_k);
    EXPECT_NEAR(routed.weights[r * top_k + at], 1 / (1 + std::exp(-logits[r * experts + 5])),
                1e-15);
  }
  const std::vector<double> dweights(rows * top_k);
  std::vector<double> dlogits(rows * experts), dbias(experts, 7.0);
  StepBlock block;
  block.loss_scale = 4;
  for (const bool accumulate : {false, true}) {
    kernels().route_grad(cpu::queue(), shape, {0, 0, seq, seq},
                         {.dlogits = dlogits.data(),
                          .dbias = dbias.data(),
                          .accumulate = accumulate,
                          .dweights = dweights.data(),
                          .logits = logits.data(),
                          .chosen = routed.chosen.data(),
                          .places = placed.places.data(),
                          .block = &block});
  }
  std::vector<double> counts(experts);
  for (const std::int32_t expert : routed.chosen) ++counts[expert];
  std::vector<double> moved = bias;
  kernels().update_router_bias(cpu::queue(), moved.data(), nullptr, dbias.data(), 0.25, experts);
  const double mean = rows * top_k / static_cast<double>(experts);
  for (int e = 0; e < experts; ++e) {
    EXPECT_DOUBLE_EQ(dbias[e], 2 * 4 * counts[e] * choice_unit);
    const double step = counts[e] < mean ? 0.25 : counts[e] > mean ? -0.25 : 0;
    EXPECT_DOUBLE_EQ(moved[e], bias[e] + step) << e;
  }
}

// With a load the choices of the unit do not matter: each expert's mean score is weighed by the
// load of the step before. What is counted for the next step becomes a load again.
TEST(Router, ALossOverTheBatchTakesTheLoadOfTheStepBefore) {
  std::vector<double> logits = random_logits();
  const RouterShape shape = shape_of(false, true);
  const Routed routed = route(shape, logits);
  const Placed placed = dispatch(routed, 0, true);
  std::vector<double> load(experts);
  for (int e = 0; e < experts; ++e) load[e] = 0.25 + 0.1 * e;
  const std::vector<double> dweights(rows * top_k);
  struct {
    ExpertTotals totals;
    std::int64_t choices[experts + 1] = {};
  } memory;
  StepBlock block;
  block.sample_scale = 0.5;
  block.loss_scale = 8;
  block.experts = &memory.totals;
  block.most_experts = experts;
  std::vector<double> dlogits(rows * experts), dload(experts);
  kernels().route_grad(cpu::queue(), shape, {0.3, 0, seq, seq},
                       {.dlogits = dlogits.data(),
                        .dload = dload.data(),
                        .dweights = dweights.data(),
                        .logits = logits.data(),
                        .chosen = routed.chosen.data(),
                        .places = placed.places.data(),
                        .load = load.data(),
                        .block = &block});
  const auto loss = [&] {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const double* row = logits.data() + r * experts;
      double exps = 0;
      for (int e = 0; e < experts; ++e) exps += std::exp(row[e]);
      for (int e = 0; e < experts; ++e) sum += 0.3 * load[e] * std::exp(row[e]) / exps / seq;
    }
    return sum;
  };
  EXPECT_NEAR(memory.totals.aux_loss.value(), loss(), 1e-13);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double kept = logits[i], step = 1e-6;
    logits[i] = kept + step;
    const double above = loss();
    logits[i] = kept - step;
    const double below = loss();
    logits[i] = kept;
    ASSERT_NEAR(dlogits[i], 0.5 * (above - below) / (2 * step), 1e-8) << i;
  }
  std::vector<double> next(experts);
  kernels().update_router_load(cpu::queue(), next.data(), nullptr, dload.data(), experts);
  for (int e = 0; e < experts; ++e) {
    const auto count = std::count(routed.chosen.begin(), routed.chosen.end(), e);
    EXPECT_DOUBLE_EQ(dload[e], 8 * static_cast<double>(count) * choice_unit);
    EXPECT_DOUBLE_EQ(next[e], static_cast<double>(count * experts) / (rows * top_k));
  }
}

TEST(Dispatch, TellsBlocksOfRowsApart) {
  constexpr std::int64_t blocks = 4;
  const Routed routed = route(shape_of(false, true), random_logits());
  const Placed placed = dispatch(routed, 0, true);
  Placed cut;
  cut.offsets.resize(experts * blocks + 1);
  kernels().dispatch(cpu::queue(), {{experts, 0, seq, true, blocks}, rows, top_k},
                     cut.places.data(), cut.offsets.data(), routed.chosen.data(),
                     routed.weights.data(), nullptr);
  EXPECT_EQ(cut.places, placed.places);
  for (std::int64_t c = 0; c < rows * top_k; ++c) {
    const std::int64_t group = routed.chosen[c] * blocks + c / (rows / blocks * top_k);
    EXPECT_GE(cut.places[c], cut.offsets[group]);
    EXPECT_LT(cut.places[c], cut.offsets[group + 1]);
  }
}

TEST(Dispatch, OrdersByExpertAndThenByRow) {
  const Routed routed = route(shape_of(false, true), random_logits());
  const Placed placed = dispatch(routed, 0, true);
  EXPECT_EQ(placed.offsets.back(), rows * top_k);
  std::vector<std::int64_t> at(rows * top_k, -1);
  for (std::int64_t c = 0; c < rows * top_k; ++c) {
    const std::int32_t place = placed.places[c], expert = routed.chosen[c];
    ASSERT_GE(place, placed.offsets[expert]);
    ASSERT_LT(place, placed.offsets[expert + 1]);
    at[place] = c;
  }
  for (int e = 0; e < experts; ++e)
    EXPECT_TRUE(std::is_sorted(at.begin() + placed.offsets[e], at.begin() + placed.offsets[e + 1]));
  EXPECT_TRUE(std::ranges::find(at, -1) == at.end());
}

class Capacity : public testing::TestWithParam<bool> {};

TEST_P(Capacity, KeepsTheHeaviestOrTheEarliestOfEachSequence) {
  const bool by_weight = GetParam();
  constexpr std::int64_t capacity = 3;
  const Routed routed = route(shape_of(false, true), random_logits());
  const Placed placed = dispatch(routed, capacity, by_weight);
  std::int64_t dropped = 0;
  for (std::int64_t c = 0; c < rows * top_k; ++c) {
    // Choices of the same expert and sequence that come before this one.
    std::int64_t before = 0;
    for (std::int64_t other = 0; other < rows * top_k; ++other) {
      if (routed.chosen[other] != routed.chosen[c] || other / (seq * top_k) != c / (seq * top_k))
        continue;
      const double mine = routed.weights[c], theirs = routed.weights[other];
      before += by_weight ? theirs > mine || (theirs == mine && other < c) : other < c;
    }
    EXPECT_EQ(placed.places[c] >= 0, before < capacity) << c;
    dropped += placed.places[c] < 0;
  }
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(placed.offsets.back(), rows * top_k - dropped);
}

INSTANTIATE_TEST_SUITE_P(Policies, Capacity, testing::Bool());

}  // namespace
}  // namespace trireme
