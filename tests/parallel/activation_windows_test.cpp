// Tests of activations in fewer windows than layers: the gradients are unchanged, also if a
// backward pass modifies the contents of a window.
#include "parallel/schedule/activation_windows.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <utility>

#include "runtime/three_linears.h"

namespace trireme {
namespace {

using testing_runtime::fill;
using testing_runtime::gradients_of;
using testing_runtime::parameters_of;
using testing_runtime::segments;
using testing_runtime::three_linears;
using testing_runtime::width;

constexpr std::int64_t positions = 5;
constexpr int layers = segments + 2;  // the last one computes a loss

// The loss gradient overwrites the saved logits, and the table's gradient, which is computed later,
// reads them.
std::unique_ptr<Graph> loss_of_positions() {
  auto g = std::make_unique<Graph>(DType::f64);
  const ValueId x = g->segment_input({positions, width});
  const ValueId table = g->parameter({"table", {width, width}, {width, width}});
  const ValueId targets = g->batch(BatchInput::targets, DType::i32, {positions});
  const ValueId weights = g->batch(BatchInput::loss_weights, DType::f32, {positions});
  const ValueId logits = ops::linear(*g, x, table, no_value);
  g->set_result(ops::cross_entropy(*g, logits, targets, weights, width), ResultOutput::token_loss);
  return g;
}

// More layers than windows, all of the windowed kind.
StageDefinition with_a_loss() {
  StageDefinition definition = three_linears(positions);
  definition.segments.push_back({0, segments, {0, 1}});
  definition.templates.emplace_back();
  definition.templates[1].train = loss_of_positions();
  definition.templates[1].eval = loss_of_positions();
  differentiate(*definition.templates[1].train);
  const auto table = static_cast<int>(definition.parameters.size());
  definition.parameters.push_back({"table", {"table", {width, width}, {width, width}}});
  definition.segments.push_back({1, segments + 1, {table}});
  lay_out_parameters(definition);
  definition.windows.clear();
  return definition;
}

// A store that keeps the windows' contents in memory.
class InMemory final : public ActivationStore {
 public:
  explicit InMemory(const Stage& stage) : stage_(stage) {}
  void allocate(const Groups&) override {}
  void keep(int segment, Slot slot) override {
    const std::byte* window = stage_.activation_window(segment);
    kept_[{segment, slot.index}] = {window, window + stage_.bytes_in_window(segment)};
  }
  void bring(int segment, Slot slot) override {
    const auto& kept = kept_.at({segment, slot.index});
    std::memcpy(stage_.activation_window(segment), kept.data(), kept.size());
  }
  void settle(int) override {}

 private:
  const Stage& stage_;
  std::map<std::pair<int, int>, std::vector<std::byte>> kept_;
};

// Gradients of two micro-batches in two slots, with passes interleaved as in a pipeline.
std::vector<double> gradients(std::int64_t windowed, bool split) {
  StageOptions options;
  options.split_weight_grad = split;
  options.windowed_layers = windowed;
  options.poison = true;
  SlotMemory slots(2);
  options.slot_memory = &slots;
  Stage stage(with_a_loss(), options);
  slots.allocate(cpu::device());
  stage.allocate();
  const auto parameters = parameters_of(stage.definition());
  std::memcpy(stage.flat_parameters(), parameters.data(), parameters.size() * sizeof(double));
  std::optional<ActivationWindows> windows;
  if (windowed > 0) windows.emplace(stage, std::make_unique<InMemory>(stage));
  StepBlock step;
  step.grad_scale = 0.5;
  const auto run = [&](Pass pass, int slot) {
    if (windows) windows->begin(pass, slot);
    if (pass == Pass::forward) {
      fill(stage.stage_input(slot), positions * width, slot);
      stage.write_batch<std::int32_t>(slot, BatchInput::targets, [&](std::int32_t* to) {
        for (int i = 0; i < positions; ++i) to[i] = static_cast<std::int32_t>((i + slot) % width);
      });
      stage.write_batch<float>(slot, BatchInput::loss_weights,
                               [](float* to) { std::fill_n(to, positions, 1.0f); });
    }
    const PassCall call{pass, slot, &step, slot == 0};
    stage.begin(call);
    for (int i = 0; i < stage.segments(); ++i) {
      const int segment = stage.segment_at(pass, i);
      if (windows) windows->before(pass, segment, slot);
      stage.run_segment(call, segment);
      if (windows) windows->after(pass, segment, slot);
    }
  };
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::weight_grad})
    for (const int slot : {0, 1})
      if (split || pass != Pass::weight_grad) run(pass, slot);
  return gradients_of(stage.definition(), reinterpret_cast<const double*>(stage.flat_gradients()));
}

TEST(ActivationWindows, GiveTheSameGradients) {
  const std::vector<double> expected = gradients(0, false);
  for (const bool split : {false, true}) {
    EXPECT_EQ(gradients(0, split), expected);
    for (const std::int64_t windowed : {1, 3, 4, layers})
      EXPECT_EQ(gradients(windowed, split), expected) << windowed << " layers, split " << split;
  }
}

TEST(ActivationWindows, AreKeptAgainWhereABackwardPassChangesThem) {
  for (const bool split : {false, true}) {
    StageOptions options;
    options.split_weight_grad = split;
    options.windowed_layers = layers;
    const Stage stage(with_a_loss(), options);
    for (int segment = 0; segment < layers; ++segment)
      EXPECT_EQ(stage.changes_window(segment), split && segment == layers - 1) << segment;
  }
}

}  // namespace
}  // namespace trireme
