// Tests of engines on ranks that are threads: layouts that share a model's states train exactly as
// one rank does, and find the rank on which values first become non-finite.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "named.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

constexpr std::int64_t micro_batches = 4;

std::vector<Batch> whole_step() {
  std::vector<Batch> step;
  for (std::int64_t k = 0; k < micro_batches; ++k) step.push_back(samples(k));
  return step;
}

struct Layout {
  int ranks;
  int pp;
  const char* schedule;
  int zero;
  int dp_replicate;
};

const Layout layouts[] = {
    {4, 1, "1f1b", 0, 1},  {4, 1, "1f1b", 1, 1},  {4, 1, "1f1b", 2, 2},        {4, 1, "1f1b", 3, 2},
    {2, 2, "1f1b", 0, 1},  {2, 2, "gpipe", 0, 1}, {2, 2, "zb1p", 0, 1},        {2, 2, "zbv", 0, 1},
    {2, 2, "vhalf", 0, 1}, {4, 2, "zbv", 3, 1},   {4, 2, "interleaved", 2, 1}, {4, 4, "1f1b", 0, 1},
};

TEST(EngineRanks, EveryLayoutGivesTheSameBits) {
  for (const std::string precision : {"fp32", "bf16"}) {
    Config config = config_of(precision);
    const Result alone = train(config, 1);
    ASSERT_LT(alone.losses.back(), alone.losses.front());
    ASSERT_EQ(alone.skipped(), 0);
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(precision + " " + layout.schedule + ", pp " + std::to_string(layout.pp) +
                   ", ZeRO " + std::to_string(layout.zero));
      config.parallel.pp = layout.pp;
      config.parallel.schedule = named(layout.schedule);
      config.parallel.virtual_stages = std::string(layout.schedule) == "interleaved" ? 2 : 1;
      config.parallel.zero = layout.zero;
      config.parallel.dp_replicate = layout.dp_replicate;
      const Result result = train(config, layout.ranks);
      EXPECT_EQ(result.losses, alone.losses);
      EXPECT_EQ(result.norms, alone.norms);
      EXPECT_EQ(result.weights, alone.weights);
    }
  }
}

// Two or four ranks per key/value head: in 64 bits the results match one rank, and with exact sums
// all layouts of equal tensor parallelism give the same bits. The norms are per head or joint.
class EngineRanksOfNorms : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Over, EngineRanksOfNorms, testing::Values("head", "all_heads"),
                         [](const auto& info) { return info.param; });
TEST_P(EngineRanksOfNorms, ShareHeadsOfKeysAndValues) {
  struct Shared {
    int ranks, tp, pp, zero;
    const char* optimizer = "adamw";
    bool sequence_parallel = false;
    const char* precision = "fp64";
  };
  std::map<std::string, Result> alone, exact;
  for (const Shared& layout : {Shared{4, 4, 1, 0},
                               {8, 4, 2, 0, "adamw", true},
                               {8, 4, 1, 3},
                               {4, 4, 1, 0, "muon"},
                               {8, 4, 1, 1, "muon"},
                               {4, 4, 1, 0, "adamw", false, "fp32"},
                               {8, 4, 2, 0, "adamw", false, "fp32"},
                               {8, 4, 1, 2, "adamw", false, "fp32"}}) {
    const std::string precision = layout.precision;
    SCOPED_TRACE(fmt::format("{} ranks, tp {}, pp {}, ZeRO {}, {} {}", layout.ranks, layout.tp,
                             layout.pp, layout.zero, layout.optimizer, precision));
    Config config = config_of(precision, micro_batches, "llama");
    config.model.num_kv_heads = 2;
    config.model.qk_norm = config.model.qkv_bias = true;
    config.model.qk_norm_over = named(GetParam());
    config.parallel.numerics = named(precision == "fp64" ? "fast" : "exact");
    config.optimizer.name = named(layout.optimizer);
    const auto [one, is_new] = alone.try_emplace(precision + layout.optimizer);
    if (is_new) one->second = train(config, 1);
    config.parallel.tp = layout.tp;
    config.parallel.pp = layout.pp;
    config.parallel.zero = layout.zero;
    config.parallel.sequence_parallel = layout.sequence_parallel;
    const Result result = train(config, layout.ranks);
    if (precision == "fp64") {
      expect_near(result, one->second, layout.optimizer == std::string("muon") ? 1e-6 : 1e-9);
      continue;
    }
    expect_near({result.losses, result.norms, {}, {}},
                {one->second.losses, one->second.norms, {}, {}}, 1e-4);
    const Result& first = exact.try_emplace(precision, result).first->second;
    EXPECT_EQ(result.losses, first.losses);
    EXPECT_EQ(result.norms, first.norms);
    EXPECT_EQ(result.weights, first.weights);
  }
}

// Runs two stages of two layers; a weight of the second becomes NaN or far too large.
std::string explanation(float poison, const std::string& name) {
  Config config = config_of("fp32");
  config.parallel.pp = 2;
  std::vector<std::string> texts(2);
  run_local_ranks(2, {.timeout_s = 60}, [&](Transport& transport) {
    const int rank = transport.place().rank;
    const auto started = start(config, transport);
    Engine& engine = *started;
    for (const OwnedSlice& slice : engine.optimizer().layout().owned()) {
      if (engine.stage().definition().parameters[slice.parameter].name != name) continue;
      reinterpret_cast<float*>(engine.optimizer().master(slice))[3] = poison;
    }
    engine.refresh_compute();
    EXPECT_FALSE(step(engine, rank, config, 0).finite);
    const std::vector<Batch> batches = whole_step();
    StepInput input;
    input.micro_batches = micro_batches;
    texts[rank] = engine.explain_not_finite(input, [&](std::int64_t k) { return &batches[k]; });
  });
  EXPECT_EQ(texts[0], texts[1]);
  return texts[0];
}

TEST(EngineRanks, NameTheFirstNumberThatIsNotFinite) {
  EXPECT_THAT(explanation(NAN, "layers.3.mlp.down.weight"),
              testing::MatchesRegex("parameter layers.3.mlp.down.weight .*, element 3 on rank 1"));
  // The product with a weight of this size overflows to infinity.
  EXPECT_THAT(explanation(3e38f, "layers.2.attention.qkv.bias"),
              testing::MatchesRegex("[a-z_]+ of layer 2 \\((for|back)ward\\), .* on rank 1"));
}

// The engine's memory must outlive messages in flight to it. A caller may catch an error that
// fails all ranks, destroy the engine while messages are in flight, and continue with a new
// one.
TEST(EngineRanks, GoOnAfterAnError) {
  Config config = config_of("fp32");
  config.parallel.pp = 2;
  run_local_ranks(2, {.timeout_s = 60}, [&](Transport& transport) {
    const std::vector<Batch> batches = whole_step();
    StepInput input;
    input.micro_batches = micro_batches;
    const auto loss_of_a_step = [&](std::int64_t bad) {
      const auto engine = start(config, transport);
      const auto next = [&](std::int64_t k) {
        if (k == bad) fail("sample {} cannot be read", k);
        return &batches[k];
      };
      return engine->train_step(input, next).loss.words().sum;
    };
    const double expected = loss_of_a_step(-1);
    EXPECT_THROW(loss_of_a_step(2), Error);
    EXPECT_EQ(loss_of_a_step(-1), expected);
  });
}

TEST(EngineRanks, AnErrorInTheMiddleOfAStepIsTheErrorThatIsHeard) {
  Config config = config_of("fp32");
  config.parallel.pp = 2;
  for (const std::string schedule : {"1f1b", "zbv"}) {
    config.parallel.schedule = named(schedule);
    try {
      run_local_ranks(2, {.timeout_s = 60}, [&](Transport& transport) {
        const int rank = transport.place().rank;
        const auto engine = start(config, transport);
        const std::vector<Batch> batches = whole_step();
        StepInput input;
        input.micro_batches = micro_batches;
        engine->train_step(input, [&](std::int64_t k) {
          if (rank == 0 && k == 2) fail("sample 2 cannot be read");
          return &batches[k];
        });
      });
      ADD_FAILURE() << "no error";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("sample 2 cannot be read"));
    }
  }
}

}  // namespace
}  // namespace trireme
