// Tests of a stage's memory: slots, windows, other shapes and borrowed parameters change no number,
// and poison reveals unwritten values.
#include "runtime/stage.h"

#include "runtime/three_linears.h"

namespace trireme {
namespace {

using namespace testing_runtime;

constexpr std::int64_t rows = 5;

// Parameters, gradients and outcomes of two micro-batches, one after the other, in a simple stage.
struct Reference {
  std::vector<double> parameters, gradients;
  std::vector<Outcome> outcomes;
};

std::unique_ptr<Stage> plain_stage(std::int64_t rows, const StageOptions& options = {}) {
  auto stage = std::make_unique<Stage>(three_linears(rows), options);
  stage->allocate();
  const auto parameters = parameters_of(stage->definition());
  if (!options.shares)
    std::memcpy(stage->flat_parameters(), parameters.data(), parameters.size() * sizeof(double));
  return stage;
}

std::vector<double> flat_gradients(const Stage& stage) {
  return gradients_of(stage.definition(), reinterpret_cast<const double*>(stage.flat_gradients()));
}

Reference reference() {
  const auto stage = plain_stage(rows);
  Reference result;
  for (int m = 0; m < 2; ++m) {
    forward(*stage, 0, rows, m);
    result.outcomes.push_back(backward(*stage, 0, rows, m, m == 0));
  }
  result.gradients = flat_gradients(*stage);
  return result;
}

TEST(Stage, MicroBatchesInSeveralSlotsGiveTheSame) {
  const Reference expected = reference();
  for (const bool split : {false, true}) {
    for (const bool poison : {false, true}) {
      SlotMemory slots(2);
      StageOptions options;
      options.slot_memory = &slots;
      options.split_weight_grad = split;
      options.poison = poison;
      Stage stage(three_linears(rows), options);
      slots.allocate(cpu::device());
      stage.allocate();
      const auto parameters = parameters_of(stage.definition());
      std::memcpy(stage.flat_parameters(), parameters.data(), parameters.size() * sizeof(double));
      forward(stage, 0, rows, 0);
      forward(stage, 1, rows, 1);  // both in flight
      EXPECT_EQ(backward(stage, 0, rows, 0, true, split), expected.outcomes[0]);
      EXPECT_EQ(backward(stage, 1, rows, 1, false, split), expected.outcomes[1]);
      EXPECT_EQ(flat_gradients(stage), expected.gradients);
    }
  }
}

// Copies parameters into windows and gradients out of them, as ZeRO 3 does.
class Carrier {
 public:
  explicit Carrier(Stage& stage)
      : stage_(stage), parameters_(parameters_of(stage.definition())), sums_(parameters_.size()) {}

  void before(int segment) {
    const FlatRange& range = stage_.definition().windows[segment][0];
    std::memcpy(stage_.parameter_window(segment), parameters_.data() + range.begin,
                static_cast<std::size_t>(range.elements) * sizeof(double));
  }
  void after(Pass pass, int segment) {
    if (pass != Pass::backward) return;
    const FlatRange& range = stage_.definition().windows[segment][0];
    auto* made = reinterpret_cast<double*>(stage_.gradient_window(segment));
    for (std::int64_t i = 0; i < range.elements; ++i) {
      poisoned_ += std::isnan(made[i]);
      sums_[range.begin + i] += made[i];
      made[i] = 0;  // as if it had been reused
    }
  }
  void run(const PassCall& call) {
    stage_.begin(call);
    for (int i = 0; i < stage_.segments(); ++i) {
      const int segment = stage_.segment_at(call.pass, i);
      before(segment);
      stage_.run_segment(call, segment);
      after(call.pass, segment);
    }
  }
  const std::vector<double>& sums() const { return sums_; }
  // Number of NaN values in gradient windows after a pass.
  int poisoned() const { return poisoned_; }

 private:
  Stage& stage_;
  std::vector<double> parameters_, sums_;
  int poisoned_ = 0;
};

TEST(Stage, WindowsGiveTheSame) {
  const Reference expected = reference();
  for (const bool poison : {false, true}) {
    StageOptions options;
    options.parameter_windows = options.gradient_windows = true;
    options.poison = poison;
    Stage stage(three_linears(rows), options);
    stage.allocate();
    Carrier carrier(stage);
    const auto run = [&](const PassCall& call) { carrier.run(call); };
    for (int m = 0; m < 2; ++m) {
      forward(stage, 0, rows, m, run);
      EXPECT_EQ(backward(stage, 0, rows, m, m == 0, false, run), expected.outcomes[m]);
    }
    EXPECT_EQ(gradients_of(stage.definition(), carrier.sums().data()), expected.gradients);
    // No pass writes between parameters: poison stays there in each window of each micro-batch.
    const auto gaps =
        static_cast<int>(stage.definition().flat_elements - segments * (width * width + width));
    EXPECT_GT(gaps, 0);
    EXPECT_EQ(carrier.poisoned(), poison ? 2 * gaps : 0);
  }
}

// Poison fills what a pass will write, immediately before it does.
TEST(Stage, PoisonReachesWhatAPassWillWrite) {
  for (const bool poison : {false, true}) {
    for (const bool split : {false, true}) {
      StageOptions options;
      options.poison = poison;
      options.split_weight_grad = split;
      const auto stage = plain_stage(rows, options);
      int stale = 0, poisoned = 0;  // numbers
      const auto look_at = [&](const void* values) {
        for (const double x : copy_of(values, rows * width)) ++(std::isnan(x) ? poisoned : stale);
      };
      const auto run = [&](const PassCall& call) {
        stage->begin(call);
        if (call.pass == Pass::forward) look_at(stage->stage_output(0));
        if (call.pass == Pass::backward) {
          look_at(stage->input_grad(0));
          for (const double x : copy_of(stage->output_grad(0), rows * width))
            EXPECT_TRUE(std::isfinite(x));  // the input is kept
        }
        for (int i = 0; i < stage->segments(); ++i)
          stage->run_segment(call, stage->segment_at(call.pass, i));
      };
      for (int m = 0; m < 2; ++m) {
        forward(*stage, 0, rows, m, run);
        backward(*stage, 0, rows, m, true, split, run);
      }
      const int all = 2 * 2 * rows * width;
      EXPECT_EQ(poisoned, poison ? all : 0);
      EXPECT_EQ(stale, poison ? 0 : all);
    }
  }
}

TEST(Stage, AnotherShapeInReservedMemory) {
  constexpr std::int64_t fewer = 2;
  Stage stage(three_linears(rows), {});
  stage.reserve(three_linears(fewer));
  const std::int64_t planned = stage.memory().total();
  stage.allocate();
  const auto parameters = parameters_of(stage.definition());
  std::memcpy(stage.flat_parameters(), parameters.data(), parameters.size() * sizeof(double));
  const auto small = plain_stage(fewer);
  for (const std::int64_t now : {fewer, rows, fewer}) {
    stage.reshape(three_linears(now));
    EXPECT_EQ(stage.memory().total(), planned);
    const auto alone = plain_stage(now);
    forward(stage, 0, now, 3);
    forward(*alone, 0, now, 3);
    EXPECT_EQ(backward(stage, 0, now, 3, true), backward(*alone, 0, now, 3, true));
    EXPECT_EQ(flat_gradients(stage), flat_gradients(*alone));
  }
  // A larger shape than reserved does not fit.
  EXPECT_THROW(stage.reshape(three_linears(rows + 1)), Error);
}

TEST(Stage, BorrowsTheParametersOfAnother) {
  StageOptions scoring;
  scoring.training = false;
  const auto owner = plain_stage(rows, scoring);
  StageOptions options = scoring;
  options.shares = owner.get();
  const auto borrower = plain_stage(2, options);
  EXPECT_EQ(borrower->parameter(0), owner->parameter(0));
  for (const MemoryRegion& region : borrower->memory().regions) {
    if (region.name == "parameters") {
      EXPECT_EQ(region.bytes, 0);
    }
  }
  // The first two rows of the owner's batch.
  fill(owner->stage_input(0), rows * width, 4);
  fill(borrower->stage_input(0), 2 * width, 4);
  owner->evaluate();
  borrower->evaluate();
  EXPECT_EQ(copy_of(borrower->stage_output(0), 2 * width),
            copy_of(owner->stage_output(0), 2 * width));
}

TEST(Stage, AllocatesWhatItPlans) {
  const std::int64_t before = cpu::device().allocated();
  Stage stage(three_linears(rows), {});
  EXPECT_EQ(cpu::device().allocated(), before);
  stage.allocate();
  EXPECT_EQ(cpu::device().allocated() - before, stage.memory().total());
}

TEST(SlotMemory, GrowsUntilItIsAllocated) {
  SlotMemory slots(3);
  slots.fit(StageRegion::saved, 100);
  slots.fit(StageRegion::saved, 50);
  EXPECT_EQ(slots.bytes(StageRegion::saved), 100);
  EXPECT_EQ(slots.plan().total(), 300);
  EXPECT_EQ(slots.at(StageRegion::saved, 0), nullptr);
  slots.allocate(cpu::device());
  EXPECT_EQ(slots.at(StageRegion::saved, 2) - slots.at(StageRegion::saved, 0), 200);
  EXPECT_EQ(slots.at(StageRegion::batch, 0), nullptr);  // no rank has any
  EXPECT_THROW(slots.fit(StageRegion::saved, 101), Error);
  EXPECT_THROW(slots.at(StageRegion::saved, 3), Error);
}

TEST(MemoryPlan, MergesRegionsOfTheSameName) {
  MemoryPlan plan;
  plan.add("a", 10);
  plan.add("b", 20);
  MemoryPlan other;
  other.add("b", 5);
  other.add("c", 1);
  plan.merge(other);
  ASSERT_EQ(plan.regions.size(), 3u);
  EXPECT_EQ(plan.regions[1].bytes, 25);
  EXPECT_EQ(plan.total(), 36);
  EXPECT_EQ(bytes_to_text(1023), "1023 B");
  EXPECT_EQ(bytes_to_text(std::int64_t{5} << 29), "2.50 GiB");
}

}  // namespace
}  // namespace trireme
