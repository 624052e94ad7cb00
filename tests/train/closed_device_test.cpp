// Tests that the host never touches device memory: whole steps, evaluation, checkpoints and the
// search for non-finite values run on a device that forbids it and match the CPU's results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/async_saver.h"
#include "checkpoint/reader.h"
#include "checkpoint/world.h"
#include "train/closed_device.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

struct Case {
  const char* name;
  const char* family;
  const char* precision;
  void (*change)(Config&);
};

Config settings_of(const Case& c) {
  Config config = config_of(c.precision, 4, c.family);
  config.parallel.numerics = Numerics::fast;
  c.change(config);
  return config;
}

std::unique_ptr<Engine> engine_on(Device& device, const Config& config) {
  auto engine =
      std::make_unique<Engine>(config, build_options(config), StageOptions{.device = &device});
  engine->allocate();
  return engine;
}

std::vector<SourceSlice> slices_of(Engine& engine) {
  return saved_slices(engine.stage(), engine.optimizer(), [](const Parameter&) { return true; });
}

Weights weights_of(Engine& engine) {
  Weights weights;
  collect(engine, weights);
  return weights;
}

TEST(ClosedDeviceDeathTest, EndsWhoeverReadsItsMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ClosedDevice closed;
  std::byte* const memory = closed.allocate(4096);
  EXPECT_DEATH((void)*static_cast<volatile std::byte*>(memory), "");
  closed.release(memory, 4096);
}

class OnClosedDevice : public testing::TestWithParam<Case> {};

TEST_P(OnClosedDevice, StepsAreThoseOfTheCpu) {
  const Config config = settings_of(GetParam());
  ClosedDevice closed;
  const auto here = engine_on(cpu::device(), config), there = engine_on(closed, config);
  for (Engine* engine : {here.get(), there.get()}) engine->initialize();
  for (int s = 0; s < 2; ++s) {
    const StepResult a = step(*here, 0, config, s), b = step(*there, 0, config, s);
    EXPECT_EQ(a.loss.mean(), b.loss.mean());
    EXPECT_EQ(a.grad_norm, b.grad_norm);
  }
  const Batch batch = samples(0);
  const auto next = [&](std::int64_t) { return &batch; };
  EXPECT_EQ(here->evaluate(2, next).mean(), there->evaluate(2, next).mean());
  EXPECT_EQ(weights_of(*here), weights_of(*there));
}

TEST_P(OnClosedDevice, CheckpointsPassThroughMirrors) {
  const Config config = settings_of(GetParam());
  ClosedDevice closed;
  const auto trained = engine_on(closed, config), resumed = engine_on(closed, config);
  trained->initialize();
  step(*trained, 0, config, 0);
  const ScratchFolder folder;
  save_checkpoint({folder}, {.step = 1}, slices_of(*trained));
  AsyncSaver saver({folder});
  saver.start({.step = 2}, slices_of(*trained));
  EXPECT_GT(closed.read_by_host(), 0);
  ASSERT_TRUE(saver.finish());
  for (const char* name : {"step-00000001", "step-00000002"}) {
    resumed->initialize();
    const std::int64_t before = closed.written();
    CheckpointReader(folder / name).read(loaded_slices(resumed->stage(), resumed->optimizer(), {}));
    resumed->refresh_compute();
    EXPECT_GT(closed.written(), before);
    EXPECT_EQ(weights_of(*resumed), weights_of(*trained));
  }
}

TEST_P(OnClosedDevice, WhatIsNotFiniteIsFound) {
  const Config config = settings_of(GetParam());
  ClosedDevice closed;
  const auto engine = engine_on(closed, config);
  engine->initialize();
  const OwnedSlice& slice = engine->optimizer().layout().owned()[1];
  closed.write(engine->optimizer().master(slice),
               slice.count() * size_of(engine->optimizer().dtype()), [](std::byte* host) {
                 *reinterpret_cast<float*>(host) = std::numeric_limits<float>::quiet_NaN();
               });
  StepInput input;
  input.micro_batches = 1;
  const Batch batch = samples(0);
  EXPECT_THAT(engine->explain_not_finite(input, [&](std::int64_t) { return &batch; }),
              testing::HasSubstr("element 0"));
}

INSTANTIATE_TEST_SUITE_P(
    Configs, OnClosedDevice,
    testing::Values(Case{"Gpt", "gpt", "fp32", [](Config&) {}},
                    Case{"LlamaBf16", "llama", "bf16",
                         [](Config& c) { c.parallel.recompute = Recompute::selective; }},
                    Case{"GptExact", "gpt", "bf16",
                         [](Config& c) {
                           c.parallel.numerics = Numerics::exact;
                           c.parallel.recompute = Recompute::full;
                         }},
                    Case{"NarrowStates", "gpt", "bf16",
                         [](Config& c) {
                           c.run.gradient_dtype = StateType::bf16;
                           c.optimizer.moment_dtype = StateType::bf16;
                         }},
                    Case{"Bert", "bert", "fp16", [](Config& c) { c.data.mask_prob = 1; }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trireme
