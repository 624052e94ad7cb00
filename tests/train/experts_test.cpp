// Tests of training with experts: all tokens at one expert, drops, reported values and evaluation.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/random.h"
#include "named.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

// A Llama model in double, dense or with experts in all layers.
Config config_in_double(std::int64_t experts) {
  Config config = config_of("fp64", 4, "llama");
  config.model.hidden_dropout = 0;
  config.parallel.numerics = Numerics::fast;
  config.model.moe.num_experts = experts;
  config.model.moe.top_k = 1;
  resolve(config.model);
  return config;
}

// Overwrites a parameter's master weights with `value` of the element's index.
template <class Value>
void set_weights(Engine& engine, const std::string& ending, const Value& value) {
  const Optimizer& optimizer = engine.optimizer();
  for (const OwnedSlice& slice : optimizer.layout().owned()) {
    const Parameter& parameter = engine.stage().definition().parameters[slice.parameter];
    if (!parameter.name.ends_with(ending)) continue;
    auto* master = reinterpret_cast<double*>(optimizer.master(slice));
    for (std::int64_t i = 0; i < parameter.spec.saved_shape.count(); ++i)
      master[i] = value(parameter.name, i);
  }
}

// With equal logits, every token goes to the first expert: the layer then equals the dense model's
// MLP, whatever the other experts contain.
TEST(Experts, OneThatHasAllTokensIsADenseLayer) {
  const auto run = [](std::int64_t experts) {
    const Config config = config_in_double(experts);
    Engine engine(config, build_options(config), {.poison = true});
    engine.allocate();
    engine.initialize();
    const auto mlp = [](double scale) {
      return [scale](const std::string&, std::int64_t i) {
        return scale * std::sin(0.7 * static_cast<double>(i));
      };
    };
    set_weights(engine, "mlp.up.weight", mlp(0.2));
    set_weights(engine, "mlp.down.weight", mlp(0.1));
    set_weights(engine, "mlp.experts.up.weight", mlp(0.2));
    set_weights(engine, "mlp.experts.down.weight", mlp(0.1));
    set_weights(engine, "mlp.router.weight", [](const std::string&, std::int64_t) { return 0.0; });
    engine.refresh_compute();
    std::vector<StepResult> results;
    for (int s = 0; s < 3; ++s) results.push_back(step(engine, 0, config, s));
    return results;
  };
  const auto dense = run(0), sparse = run(8);
  for (int s = 0; s < 3; ++s) {
    EXPECT_NEAR(sparse[s].loss.mean(), dense[s].loss.mean(), 1e-13);
    EXPECT_NEAR(sparse[s].grad_norm, dense[s].grad_norm, 1e-12);
    EXPECT_TRUE(dense[s].experts.imbalance.empty());
    ASSERT_EQ(sparse[s].experts.imbalance.size(), 4u);
    for (const double load : sparse[s].experts.imbalance) EXPECT_DOUBLE_EQ(load, 8);
    EXPECT_EQ(sparse[s].experts.dropped, 0);
  }
}

// All tokens go to the first expert, whose capacity is one eighth of a sequence's tokens.
TEST(Experts, DropsAreCountedAndEvaluationHasNone) {
  Config config = config_in_double(8);
  config.model.moe.capacity_factor = 1;
  Engine engine(config, build_options(config), {.poison = true});
  engine.allocate();
  engine.initialize();
  set_weights(engine, "mlp.router.weight", [](const std::string&, std::int64_t) { return 0.0; });
  engine.refresh_compute();
  const Batch first = samples(0);
  const auto evaluate = [&] { return engine.evaluate(1, [&](std::int64_t) { return &first; }); };
  const double before = evaluate().mean();
  const StepResult result = step(engine, 0, config, 0);
  constexpr std::int64_t layers = 4, sequences = 8;
  EXPECT_EQ(result.experts.dropped, layers * sequences * (seq - seq / 8));

  Config dropless = config;
  dropless.model.moe.capacity_factor = 0;
  Engine other(dropless, build_options(dropless), {.poison = true});
  other.allocate();
  other.initialize();
  set_weights(other, "mlp.router.weight", [](const std::string&, std::int64_t) { return 0.0; });
  other.refresh_compute();
  EXPECT_EQ(other.evaluate(1, [&](std::int64_t) { return &first; }).mean(), before);
}

// All tokens prefer the first expert initially; only the biases learn.
void expect_balance_within_200_steps(RouterScore score) {
  Config config = config_in_double(8);
  config.model.moe.top_k = 2;
  config.model.moe.score = score;
  config.model.moe.expert_bias = true;
  config.model.moe.bias_update_rate = 0.005;
  config.optimizer.lr = 0;
  Engine engine(config, build_options(config), {});
  engine.allocate();
  engine.initialize();
  set_weights(engine, "mlp.router.weight", [](const std::string& name, std::int64_t i) {
    return 0.5 * normal(3, name.size() + name[7], static_cast<std::uint64_t>(i));
  });
  set_weights(engine, "mlp.router.bias",
              [](const std::string&, std::int64_t i) { return i == 0 ? 0.5 : 0.0; });
  engine.refresh_compute();
  std::vector<double> first, last;
  for (int s = 0; s < 200; ++s) {
    last = step(engine, 0, config, s).experts.imbalance;
    if (s == 0) first = last;
  }
  for (const double load : first) EXPECT_GT(load, 2);
  for (const double load : last) EXPECT_LT(load, 1.5);
}

TEST(SlowExperts, TheBiasBalancesASkewedRouterWithin200Steps) {
  for (const RouterScore score : {RouterScore::sigmoid, RouterScore::softmax}) {
    SCOPED_TRACE(score == RouterScore::sigmoid);
    expect_balance_within_200_steps(score);
  }
}

// The values that a step reports do not depend on the layout either.
TEST(Experts, LoadsAndLossesAreThoseOfAllRanks) {
  const auto loads = [](int ranks, const std::string& schedule) {
    Config config = config_of("fp32", 4, "experts");
    config.parallel.pp = ranks > 2 ? 2 : 1;
    config.parallel.schedule = named(schedule);
    config.parallel.zero = ranks > 1 ? 3 : 0;
    config.parallel.recompute = named(ranks > 1 ? "full" : "none");
    std::mutex mutex;
    std::vector<ExpertLoad> found;
    run_local_ranks(ranks, {.timeout_s = 60}, [&](Transport& transport) {
      const auto engine = start(config, transport);
      const StepResult result = step(*engine, transport.place().rank, config, 0);
      const std::lock_guard lock(mutex);
      found.push_back(result.experts);
    });
    return found;
  };
  const ExpertLoad alone = loads(1, "1f1b").front();
  EXPECT_EQ(alone.imbalance.size(), 3u);
  EXPECT_GT(alone.aux_loss, 0);
  for (const std::string schedule : {"1f1b", "zbv"}) {
    for (const ExpertLoad& load : loads(4, schedule)) {
      EXPECT_EQ(load.imbalance, alone.imbalance);
      EXPECT_EQ(load.dropped, alone.dropped);
      EXPECT_EQ(load.aux_loss, alone.aux_loss);
      EXPECT_EQ(load.z_loss, alone.z_loss);
    }
  }
}

}  // namespace
}  // namespace trireme
