// Tests of gradient sums and moments in bf16: training follows the fp32 run at every ZeRO stage,
// and the memory savings are as promised.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "named.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

using testing::DoubleNear;
using testing::Each;

constexpr std::int64_t micro_batches = 8;
constexpr int steps = 30;

// At this learning rate the tiny model does not amplify rounding errors: at 0.01 the losses of two
// instruction sets, both correct, differ by up to 1.7% within thirty steps, at 0.003 by less than
// 0.1%.
Config narrow_config(const std::string& gradients, const std::string& moments) {
  Config config = config_of("bf16", micro_batches);
  config.optimizer.lr = 0.003;
  config.parallel.numerics = Numerics::fast;
  config.run.gradient_dtype = named(gradients);
  config.optimizer.moment_dtype = named(moments);
  return config;
}

// Activations and weights are rounded to bf16 at every step anyway: the additional error of
// rounding the states stays below one such rounding, on every processor.
constexpr double one_rounding = 0x1p-8;

// Returns the relative deviations of the bf16 losses from the fp32 ones.
std::vector<double> deviations(const Result& narrow, const Result& wide) {
  std::vector<double> out;
  for (int s = 0; s < steps; ++s) out.push_back(narrow.losses[s] / wide.losses[s] - 1);
  return out;
}

TEST(NarrowStates, LossesFollowThoseOfWideStates) {
  const Result wide = train(narrow_config("fp32", "fp32"), 1, steps);
  ASSERT_LT(wide.losses.back(), 0.85 * wide.losses.front());
  const auto expect_close = [&](const Result& narrow) {
    EXPECT_NE(narrow.losses, wide.losses);  // otherwise nothing was rounded
    EXPECT_THAT(deviations(narrow, wide), Each(DoubleNear(0, one_rounding)));
  };
  for (const auto& [gradients, moments] :
       {std::pair{"bf16", "fp32"}, {"fp32", "bf16"}, {"bf16", "bf16"}}) {
    SCOPED_TRACE(std::string("gradients ") + gradients + ", moments " + moments);
    expect_close(train(narrow_config(gradients, moments), 1, steps));
  }
  for (const int zero : {0, 2, 3}) {
    SCOPED_TRACE("4 ranks, ZeRO " + std::to_string(zero));
    Config config = narrow_config("bf16", "bf16");
    config.parallel.zero = zero;
    config.parallel.dp_replicate = zero == 2 ? 2 : 1;
    expect_close(train(config, 4, steps));
  }
  Config pipeline = narrow_config("bf16", "bf16");
  pipeline.parallel.pp = 2;
  pipeline.parallel.schedule = ScheduleKind::zb1p;
  expect_close(train(pipeline, 4, steps));
}

// Stochastic rounding is unbiased: over several runs the deviations of late steps cancel out.
TEST(NarrowStates, LossesAreNotBiased) {
  constexpr int seeds = 4, late = 10;
  double sum = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    Config wide = narrow_config("fp32", "fp32"), narrow = narrow_config("bf16", "bf16");
    wide.run.seed = narrow.run.seed = seed;
    const auto all = deviations(train(narrow, 1, steps), train(wide, 1, steps));
    sum += std::accumulate(all.end() - late, all.end(), 0.0) / late;
  }
  EXPECT_NEAR(sum / seeds, 0, one_rounding / 4);
}

TEST(NarrowStates, ARunRepeatsItsBits) {
  const Config config = narrow_config("bf16", "bf16");
  EXPECT_EQ(train(config, 2, 3).losses, train(config, 2, 3).losses);
}

// If the rounding repeated itself, it would push an element in the same direction at every step.
TEST(NarrowStates, EachStepRoundsAnew) {
  const auto norm_of = [](const std::string& gradients, int number) {
    Config config = narrow_config(gradients, "fp32");
    config.model.hidden_dropout = 0;
    double norm = 0;
    run_local_ranks(1, {.timeout_s = 60}, [&](Transport& transport) {
      const auto engine = start(config, transport);
      norm = step(*engine, 0, config, number).grad_norm;
    });
    return norm;
  };
  EXPECT_EQ(norm_of("fp32", 0), norm_of("fp32", 1));
  EXPECT_NE(norm_of("bf16", 0), norm_of("bf16", 1));
}

TEST(NarrowStates, GradientsThatOverflowSkipTheStep) {
  Config config = narrow_config("bf16", "bf16");
  config.run.precision = Precision::fp16;
  config.optimizer.initial_loss_scale = 0x1p24;
  config.optimizer.loss_scale_window = 4;
  config.optimizer.hysteresis = 1;
  const Result result = train(config, 2, 20);
  EXPECT_GE(result.skipped(), 3);
  EXPECT_LT(result.skipped(), 15);
}

std::int64_t bytes_of(const MemoryPlan& plan, const std::string& name) {
  for (const MemoryRegion& region : plan.regions) {
    if (region.name == name) return region.bytes;
  }
  return -1;
}

TEST(NarrowStates, TakeTwoBytesPerParameter) {
  const auto plan_of = [](const Config& config) {
    const Engine engine(config, build_options(config), {});
    return std::pair{engine.memory(), engine.optimizer().layout().state_elements()};
  };
  const auto [narrow, elements] = plan_of(narrow_config("bf16", "bf16"));
  EXPECT_EQ(bytes_of(narrow, "gradient sums"), 2 * elements);
  EXPECT_EQ(bytes_of(narrow, "first moments"), 2 * elements);
  EXPECT_EQ(bytes_of(narrow, "second moments"), 2 * elements);
  EXPECT_EQ(bytes_of(narrow, "master weights"), 4 * elements);
  const auto [wide, same] = plan_of(narrow_config("fp32", "fp32"));
  EXPECT_EQ(same, elements);
  EXPECT_EQ(bytes_of(wide, "gradients"), 4 * elements);
  EXPECT_EQ(bytes_of(wide, "first moments"), 4 * elements);
  EXPECT_EQ(bytes_of(wide, "widened states"), 0);
}

}  // namespace
}  // namespace trireme
