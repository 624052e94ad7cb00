// Engines on ranks that are threads: layouts that share one model's states train exactly as one
// rank does, and find the rank on which numbers stop being finite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <mutex>

#include "comm/local.h"
#include "train/engine.h"
#include "train/slices.h"

namespace trireme {
namespace {

constexpr std::int64_t seq = 8, batch = 2, micro_batches = 4, vocab = 37;

Config config_of(const std::string& precision) {
  Config config;
  ModelConfig& m = config.model;
  m.family = "gpt";
  m.num_layers = 4;
  m.hidden_size = 16;
  m.num_heads = 4;
  m.seq_length = m.max_positions = seq;
  m.vocab_size = vocab;
  m.hidden_dropout = 0.1;
  resolve(m);
  config.run.precision = precision;
  config.train.micro_batch_size = batch;
  config.train.global_batch_size = batch * micro_batches;
  config.parallel.numerics = "exact";
  return config;
}

// Micro-batch k of the whole step, tokens by position.
struct Samples {
  std::vector<std::int32_t> tokens, targets;
  std::vector<std::int64_t> ids;
  explicit Samples(std::int64_t k) {
    for (std::int64_t b = 0; b < batch; ++b) {
      ids.push_back(k * batch + b);
      for (std::int64_t t = 0; t < seq; ++t) {
        tokens.push_back(static_cast<std::int32_t>((7 * k + 3 * b + t * t) % vocab));
        targets.push_back(static_cast<std::int32_t>((7 * k + 3 * b + (t + 1) * (t + 1)) % vocab));
      }
    }
  }
  MicroBatch view() const {
    return {tokens.data(), targets.data(), nullptr, nullptr, nullptr, ids.data()};
  }
};

std::vector<Samples> whole_step() {
  std::vector<Samples> samples;
  for (std::int64_t k = 0; k < micro_batches; ++k) samples.emplace_back(k);
  return samples;
}

using Weights = std::map<std::string, std::vector<float>>;

struct Result {
  std::vector<double> losses, norms;
  Weights weights;
};

// This rank's share of a step: data-parallel ranks take turns.
StepResult step(Engine& engine, int rank, int number) {
  const int dp = engine.mesh().degrees().dp(), index = engine.mesh().dp_index(rank);
  std::vector<Samples> own;
  for (std::int64_t k = 0; k < micro_batches / dp; ++k) own.emplace_back(k * dp + index);
  StepInput input;
  input.step = static_cast<std::uint64_t>(number);
  input.micro_batches = micro_batches / dp;
  input.lr = 0.01;
  input.clip_grad = 1;
  return engine.train_step(input, [&](std::int64_t k) { return own[k].view(); });
}

// Masters that this rank speaks for, in their places of the whole tensors.
void collect(const Engine& engine, Weights& weights) {
  for (int c = 0; c < engine.chunks(); ++c) {
    const auto slices = saved_slices(engine.stage(c), engine.optimizer(c), [&](const Parameter& p) {
      return engine.speaks_for(c, p.spec);
    });
    for (const SourceSlice& slice : slices) {
      auto& whole = weights[slice.name];
      whole.resize(static_cast<std::size_t>(slice.tensor.count()),
                   std::numeric_limits<float>::quiet_NaN());
      const auto* values = reinterpret_cast<const float*>(slice.data);
      for (const Run& run : overlap(slice.tensor, slice.region, Region::whole(slice.tensor)))
        std::copy_n(values + run.src, run.count, whole.begin() + run.dst);
    }
  }
}

// This rank's engine, with the first weights.
std::unique_ptr<Engine> start(const Config& config, Transport& transport,
                              const StageOptions& stage = {}) {
  BuildOptions build;
  build.compute = compute_dtype(config.run.precision);
  build.batch = batch;
  const RankOf rank{transport.place().rank, transport.place().size};
  auto engine = std::make_unique<Engine>(config, build, stage, rank);
  engine->allocate(&transport);
  engine->initialize();
  return engine;
}

Result train(const Config& config, int ranks) {
  Result result;
  std::mutex mutex;
  run_local_ranks(ranks, {.timeout_s = 60}, [&](Transport& transport) {
    const int rank = transport.place().rank;
    const auto started = start(config, transport, {.poison = true});
    Engine& engine = *started;
    for (int s = 0; s < 3; ++s) {
      const StepResult done = step(engine, rank, s);
      EXPECT_TRUE(done.finite);
      if (rank > 0) continue;
      result.losses.push_back(done.loss.mean());
      result.norms.push_back(done.grad_norm);
    }
    const std::lock_guard lock(mutex);
    collect(engine, result.weights);
  });
  return result;
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
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(precision + " " + layout.schedule + ", pp " + std::to_string(layout.pp) +
                   ", ZeRO " + std::to_string(layout.zero));
      config.parallel.pp = layout.pp;
      config.parallel.schedule = layout.schedule;
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

// Two stages of two layers, the second of which gets a weight that is no number or far too large.
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
    EXPECT_FALSE(step(engine, rank, 0).finite);
    const std::vector<Samples> samples = whole_step();
    StepInput input;
    input.micro_batches = micro_batches;
    texts[rank] =
        engine.explain_not_finite(input, [&](std::int64_t k) { return samples[k].view(); });
  });
  EXPECT_EQ(texts[0], texts[1]);
  return texts[0];
}

TEST(EngineRanks, NameTheFirstNumberThatIsNotFinite) {
  EXPECT_THAT(explanation(NAN, "layers.3.mlp.down.weight"),
              testing::MatchesRegex("parameter layers.3.mlp.down.weight .*, element 3 on rank 1"));
  // Infinite after the product with a weight of this size.
  EXPECT_THAT(explanation(3e38f, "layers.2.attention.qkv.bias"),
              testing::MatchesRegex("[a-z_]+ of layer 2 \\((for|back)ward\\), .* on rank 1"));
}

// Its memory must outlive the messages that are still on their way to it.
TEST(EngineRanks, AnErrorInTheMiddleOfAStepIsTheErrorThatIsHeard) {
  Config config = config_of("fp32");
  config.parallel.pp = 2;
  for (const std::string schedule : {"1f1b", "zbv"}) {
    config.parallel.schedule = schedule;
    try {
      run_local_ranks(2, {.timeout_s = 60}, [&](Transport& transport) {
        const int rank = transport.place().rank;
        const auto engine = start(config, transport);
        const std::vector<Samples> samples = whole_step();
        StepInput input;
        input.micro_batches = micro_batches;
        engine->train_step(input, [&](std::int64_t k) {
          if (rank == 0 && k == 2) fail("sample 2 cannot be read");
          return samples[k].view();
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
