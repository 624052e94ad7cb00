// A stage of three linear layers, small enough to inspect every number.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "graph/autodiff.h"
#include "graph/ops/ops.h"
#include "runtime/stage.h"

namespace trireme::testing_runtime {

constexpr std::int64_t width = 6;
constexpr int segments = 3;

inline StageDefinition three_linears(std::int64_t rows, DType compute = DType::f64) {
  StageDefinition definition;
  definition.compute = compute;
  const ParameterSpec weight{"weight", {width, width}, {width, width}},
      bias{"bias", {width}, {width}};
  const auto build = [&] {
    auto g = std::make_unique<Graph>(compute);
    const ValueId x = g->segment_input({rows, width});
    const ValueId w = g->parameter(weight);
    const ValueId b = g->parameter(bias);
    const ValueId h = ops::linear(*g, x, w, b);
    g->set_output(ops::activation(*g, h, ActivationKind::gelu_tanh));
    return g;
  };
  definition.templates.emplace_back();
  definition.templates[0].train = build();
  definition.templates[0].eval = build();
  differentiate(*definition.templates[0].train);
  for (int s = 0; s < segments; ++s) {
    const int first = static_cast<int>(definition.parameters.size());
    definition.parameters.push_back({std::to_string(s) + "weight", weight});
    definition.parameters.push_back({std::to_string(s) + "bias", bias});
    definition.segments.push_back({0, s, {first, first + 1}});
  }
  lay_out_parameters(definition);
  for (int s = 0; s < segments; ++s) {
    const std::int64_t begin = definition.parameters[2 * s].offset;
    const std::int64_t end =
        s + 1 < segments ? definition.parameters[2 * s + 2].offset : definition.flat_elements;
    definition.windows.push_back({{begin, end - begin}});
  }
  return definition;
}

// Returns a number that is different for every index and seed.
inline double number(std::int64_t i, int seed) {
  return std::sin(static_cast<double>(3 * i + 7 * seed + 1));
}

inline std::vector<double> parameters_of(const StageDefinition& definition) {
  std::vector<double> all(static_cast<std::size_t>(definition.flat_elements));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = number(static_cast<std::int64_t>(i), 1) / 2;
  return all;
}

inline void fill(void* to, std::int64_t count, int seed) {
  for (std::int64_t i = 0; i < count; ++i) static_cast<double*>(to)[i] = number(i, seed);
}

inline std::vector<double> copy_of(const void* from, std::int64_t count) {
  const auto* values = static_cast<const double*>(from);
  return {values, values + count};
}

// The results of a micro-batch.
struct Outcome {
  std::vector<double> output, input_grad;
  bool operator==(const Outcome&) const = default;
};

// Runs a pass: Stage::run, or a test's own code around its segments.
using RunPass = std::function<void(const PassCall&)>;

inline void forward(Stage& stage, Slot slot, std::int64_t rows, int seed,
                    const RunPass& run = nullptr) {
  fill(stage.stage_input(slot), rows * width, seed);
  const PassCall call{Pass::forward, slot};
  run ? run(call) : stage.run(call);
}

// Runs the backward pass of the micro-batch whose forward pass is in the slot.
inline Outcome backward(Stage& stage, Slot slot, std::int64_t rows, int seed, bool first,
                        bool split = false, const RunPass& run = nullptr) {
  Outcome outcome;
  outcome.output = copy_of(stage.stage_output(slot), rows * width);
  fill(stage.output_grad(slot), rows * width, seed + 100);
  for (const Pass pass : {Pass::backward, Pass::weight_grad}) {
    if (pass == Pass::weight_grad && !split) continue;
    const PassCall call{pass, slot, nullptr, first};
    run ? run(call) : stage.run(call);
  }
  outcome.input_grad = copy_of(stage.input_grad(slot), rows * width);
  return outcome;
}

// Returns the gradients of all parameters, without the gaps between them.
inline std::vector<double> gradients_of(const StageDefinition& definition, const double* flat) {
  std::vector<double> all;
  for (const Parameter& p : definition.parameters)
    all.insert(all.end(), flat + p.offset, flat + p.offset + p.spec.shape.count());
  return all;
}

}  // namespace trireme::testing_runtime
