// Tests of each optimizer's steps over a stage's states, against the formulas in double; the bits
// must not depend on the sharding of the states.
#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "named.h"
#include "runtime/three_linears.h"

namespace trireme {
namespace {

using namespace testing_runtime;

constexpr int steps = 6;
constexpr double gradient_scale = 0.5;

double lr_of(int step) {
  return 0.01 / (1 + step);
}

// Returns the gradient of an element at a step.
double gradient_of(int parameter, std::int64_t i, int step) {
  return std::sin(static_cast<double>(1 + parameter * 50 + i * 3 + step * 7));
}

OptimizerConfig config_of(const std::string& name, const std::string& moments = "fp32") {
  OptimizerConfig config;
  config.name = named(name);
  config.beta2 = 0.99;
  config.weight_decay = 0.1;
  config.momentum = 0.8;
  config.moment_dtype = named(moments);
  return config;
}

// One rank's states and everything they need; `degree` ranks that share them run one by one.
struct States {
  Stage stage;
  StateLayout layout;
  Parameters parameters;
  Gradients gradients;
  Optimizer optimizer;
  Groups groups = make_lone_groups();

  States(DType compute, const OptimizerConfig& config, const StateOptions& options)
      : States(three_linears(4, compute), config, options) {}

  void step(int number) {
    for (const OwnedSlice& slice : layout.owned()) {
      for (std::int64_t i = 0; i < slice.count(); ++i) {
        const double value = gradient_of(slice.parameter, slice.begin + i, number);
        put(gradients.part(slice.bucket), gradients.dtype(), slice.offset + i, value);
      }
    }
    StepBlock block;
    block.seed = 1234;
    block.lr = lr_of(number);
    block.update_scale = gradient_scale;
    optimizer.describe_next_step(block);
    optimizer.step(&block);
  }
  // Returns weights, then moments, of the elements that this rank owns, by parameter and element.
  std::map<std::pair<int, std::int64_t>, std::vector<double>> values() const {
    std::map<std::pair<int, std::int64_t>, std::vector<double>> all;
    for (const OwnedSlice& slice : layout.owned()) {
      for (std::int64_t i = 0; i < slice.count(); ++i) {
        auto& element = all[{slice.parameter, slice.begin + i}];
        element.push_back(get(optimizer.master(slice), optimizer.dtype(), i));
        for (int m = 0; m < optimizer.moments(slice.parameter); ++m)
          element.push_back(get(optimizer.moment(slice, m), optimizer.moment_dtype(), i));
      }
    }
    return all;
  }

 private:
  States(StageDefinition definition, const OptimizerConfig& config, const StateOptions& options)
      : stage(laid_out(std::move(definition), options), {}),
        layout(stage.definition(), options),
        parameters(stage, layout),
        gradients(stage, layout),
        optimizer(stage, layout, parameters, gradients, config) {
    stage.allocate();
    parameters.allocate(groups);
    gradients.allocate(groups);
    optimizer.allocate(groups);
    optimizer.initialize(7);
  }
  static StageDefinition laid_out(StageDefinition definition, const StateOptions& options) {
    for (Parameter& p : definition.parameters) {
      p.spec.init_std = 0.3;
      p.spec.decay = p.spec.shape.rank() > 1;
    }
    StateLayout(definition, options).lay_out(definition);
    return definition;
  }
  static void put(std::byte* to, DType dtype, std::int64_t i, double value) {
    if (dtype == DType::f64) reinterpret_cast<double*>(to)[i] = value;
    if (dtype == DType::f32) reinterpret_cast<float*>(to)[i] = static_cast<float>(value);
  }
  static double get(const std::byte* from, DType dtype, std::int64_t i) {
    if (dtype == DType::f64) return reinterpret_cast<const double*>(from)[i];
    if (dtype == DType::f32) return reinterpret_cast<const float*>(from)[i];
    return static_cast<float>(reinterpret_cast<const bf16*>(from)[i]);
  }
};

// Computes one element by the formulas: weight, then moments.
std::vector<double> by_the_book(const OptimizerConfig& c, double weight, bool decays, int parameter,
                                std::int64_t i) {
  const double decay = decays ? c.weight_decay : 0;
  double p = weight, m = 0, v = 0;
  for (int s = 0; s < steps; ++s) {
    const double lr = lr_of(s), t = s + 1;
    double g = gradient_scale * gradient_of(parameter, i, s);
    const bool apart = c.name == OptimizerKind::adamw || c.name == OptimizerKind::lion;
    if (apart) p -= lr * decay * p;
    if (!apart) g += decay * p;
    if (c.name == OptimizerKind::lion) {
      const double direction = c.lion_beta1 * m + (1 - c.lion_beta1) * g;
      p -= lr * (direction > 0 ? 1 : -1);
      m = c.lion_beta2 * m + (1 - c.lion_beta2) * g;
      continue;
    }
    if (c.name == OptimizerKind::sgd) {
      m = c.momentum * m + g;
      p -= lr * m;
      continue;
    }
    m = c.beta1 * m + (1 - c.beta1) * g;
    v = c.beta2 * v + (1 - c.beta2) * g * g;
    p -=
        lr * (m / (1 - std::pow(c.beta1, t))) / (std::sqrt(v / (1 - std::pow(c.beta2, t))) + c.eps);
  }
  if (c.name == OptimizerKind::sgd || c.name == OptimizerKind::lion) return {p, m};
  return {p, m, v};
}

TEST(Optimizer, EveryRuleFollowsItsFormula) {
  for (const std::string name : {"adamw", "adam", "sgd", "lion"}) {
    for (const auto& [compute, moments, tolerance] : {std::tuple{DType::f64, "fp32", 1e-13},
                                                      {DType::f32, "fp32", 1e-5},
                                                      {DType::bf16, "fp32", 1e-5},
                                                      {DType::bf16, "bf16", 0.02}}) {
      SCOPED_TRACE(name + " " + std::string(name_of(compute)) + " " + moments);
      const OptimizerConfig config = config_of(name, moments);
      States states(compute, config, {});
      const auto first = states.values();
      for (int s = 0; s < steps; ++s) states.step(s);
      EXPECT_EQ(states.optimizer.steps(), steps);
      for (const auto& [place, values] : states.values()) {
        const bool decays = states.stage.definition().parameters[place.first].spec.decay;
        const auto expected =
            by_the_book(config, first.at(place)[0], decays, place.first, place.second);
        ASSERT_EQ(values.size(), expected.size());
        for (std::size_t k = 0; k < values.size(); ++k)
          EXPECT_NEAR(values[k], expected[k], tolerance * std::max(1.0, std::abs(expected[k])));
      }
    }
  }
}

TEST(Optimizer, ASharedStateGetsTheSameBits) {
  for (const std::string moments : {"fp32", "bf16"}) {
    for (const std::string name : {"adamw", "sgd", "lion"}) {
      States whole(DType::bf16, config_of(name, moments), {});
      for (int s = 0; s < steps; ++s) whole.step(s);
      std::map<std::pair<int, std::int64_t>, std::vector<double>> together;
      for (int rank = 0; rank < 3; ++rank) {
        StateOptions options;
        options.zero = 1;
        options.degree = 3;
        options.rank = rank;
        States part(DType::bf16, config_of(name, moments), options);
        for (int s = 0; s < steps; ++s) part.step(s);
        together.merge(part.values());
      }
      EXPECT_EQ(together, whole.values());
    }
  }
}

}  // namespace
}  // namespace trireme
