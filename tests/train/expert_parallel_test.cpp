// Tests of expert parallelism: ranks that share the experts compute what one rank computes, also
// combined with context, tensor and pipeline parallelism.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "named.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

struct Dealt {
  int ranks, ep, zero;
  const char* schedule = "";  // schedule on two stages; empty: no pipeline
  const char* recompute = "none";
  int dp_replicate = 1;
  int cp = 1;
  const char* cp_attention = "all_gather";
  int tp = 1;
  int expert_tp = 1;
};

std::string text_of(const Dealt& d) {
  return fmt::format("{} ranks, ep {} x {}, ZeRO {} x {}, {}, recompute {}, cp {} {}, tp {}",
                     d.ranks, d.ep, d.expert_tp, d.zero, d.dp_replicate,
                     *d.schedule ? d.schedule : "no pipeline", d.recompute, d.cp, d.cp_attention,
                     d.tp);
}
void PrintTo(const Dealt& d, std::ostream* out) {
  *out << text_of(d);
}

constexpr Dealt layouts[] = {
    {2, 2, 0},
    {4, 2, 0},
    {4, 4, 0, "", "full"},
    {4, 2, 1},
    {4, 4, 1},
    {4, 2, 2, "", "selective"},
    {4, 2, 3, "", "full"},
    {8, 2, 2, "", "none", 2},
    {8, 4, 3, "", "none", 2},
    {4, 2, 0, "gpipe"},
    {4, 2, 1, "1f1b"},
    {8, 2, 2, "interleaved"},
    {8, 2, 3, "zb1p"},
    {8, 4, 1, "zbv", "full"},
    {8, 2, 3, "vhalf"},
};

Config on(Config config, const Dealt& d) {
  ParallelConfig& p = config.parallel;
  p.ep = d.ep;
  p.expert_tp = d.expert_tp;
  p.zero = d.zero;
  p.recompute = named(d.recompute);
  p.dp_replicate = d.dp_replicate;
  p.cp = d.cp;
  p.cp_attention = named(d.cp_attention);
  p.tp = d.tp;
  p.sequence_parallel = d.tp > 1;
  if (*d.schedule) {
    p.pp = 2;
    p.schedule = named(d.schedule);
    p.virtual_stages = p.schedule == ScheduleKind::interleaved ? 2 : 1;
  }
  validate_layout(config, d.ranks);
  return config;
}

void expect_equal(const Result& result, const Result& expected) {
  EXPECT_EQ(result.finite, expected.finite);
  EXPECT_EQ(result.losses, expected.losses);
  EXPECT_EQ(result.norms, expected.norms);
  EXPECT_TRUE(result.weights == expected.weights);  // and moments
}

class DealtExperts : public testing::TestWithParam<Dealt> {};

// A wrong gradient scale would show in norms and weights; an expert that is counted twice, in the
// norm.
TEST_P(DealtExperts, ComputeWhatOneRankComputes) {
  Config config = config_of("fp64", 8, "experts");
  config.parallel.numerics = Numerics::fast;
  config.optimizer.name = OptimizerKind::sgd;
  static const Result expected = train(config, 1);
  expect_near(train(on(config, GetParam()), GetParam().ranks), expected, 1e-12);
}

TEST_P(DealtExperts, GiveTheSameBits) {
  using Run = std::pair<std::string, std::string>;
  for (const auto& [precision, family] :
       {Run{"bf16", "experts"}, {"fp32", "experts"}, {"bf16", "residual"}, {"fp32", "latent"}}) {
    SCOPED_TRACE(precision + " " + family);
    const Config config = config_of(precision, 8, family);
    static std::map<Run, Result> alone;
    const auto [expected, added] = alone.try_emplace({precision, family});
    if (added) expected->second = train(config, 1);
    expect_equal(train(on(config, GetParam()), GetParam().ranks), expected->second);
  }
}

// A model like gpt-oss: attention sinks and windows, biases everywhere, and active clamping. A
// rank's biases of four experts are a multiple of 256 numbers.
Config gpt_oss(const std::string& precision) {
  Config config = config_of(precision, 8, "experts");
  ModelConfig& m = config.model;
  m.moe = {};
  m.moe.num_experts = 8;
  m.moe.ffn_hidden_size = 56;
  m.moe.router_bias = m.moe.linear_bias = true;
  m.moe.aux_loss_coeff = 0.01;
  m.bias = m.qkv_bias = m.attention_sinks = true;
  m.attention_window = 5;
  m.window_layers = {0, 2};
  m.activation_clamp = 0.02;
  m.gate_alpha = 1.702;
  m.gate_offset = 1;
  return config;
}

TEST_P(DealtExperts, WithBiasesComputeWhatOneRankComputes) {
  Config config = gpt_oss("fp64");
  config.parallel.numerics = Numerics::fast;
  config.optimizer.name = OptimizerKind::sgd;
  static const Result expected = train(config, 1);
  expect_near(train(on(config, GetParam()), GetParam().ranks), expected, 1e-12);
  const Config exact = gpt_oss("bf16");
  static const Result bits = train(exact, 1);
  expect_equal(train(on(exact, GetParam()), GetParam().ranks), bits);
}

std::string dealt_layout_name(const testing::TestParamInfo<Dealt>& info) {
  const Dealt& d = info.param;
  return fmt::format("{}_ranks_ep{}_zero{}_{}", d.ranks, d.ep, d.zero,
                     *d.schedule ? d.schedule : "one_stage");
}

INSTANTIATE_TEST_SUITE_P(Layouts, DealtExperts, testing::ValuesIn(layouts), dealt_layout_name);

// Layouts in which ranks hold parts of the same sequences.
constexpr Dealt sharing[] = {
    {2, 2, 0, "", "none", 1, 2},
    {4, 4, 1, "", "full", 1, 2},
    {4, 2, 3, "", "selective", 1, 2, "ulysses"},
    {4, 1, 2, "", "none", 1, 2},
    {8, 4, 2, "zb1p", "none", 1, 4},
    {8, 2, 1, "", "none", 2, 2, "ulysses"},
};
constexpr Dealt cutting[] = {
    {2, 1, 1, "", "none", 1, 1, "all_gather", 2},
    {2, 2, 0, "", "full", 1, 1, "all_gather", 2},
    {4, 4, 3, "", "selective", 1, 1, "all_gather", 2},
    {4, 1, 0, "1f1b", "none", 1, 1, "all_gather", 2},
    {8, 4, 2, "", "none", 1, 2, "ulysses", 2},
    {8, 2, 1, "", "none", 2, 1, "all_gather", 2},
    {8, 2, 1, "zbv", "none", 1, 2, "all_gather", 2},
};

Config without_capacity(const std::string& precision) {
  Config config = config_of(precision, 8, "experts");
  config.model.moe.capacity_factor = 0;
  config.model.moe.shared_ffn_hidden_size = 8;
  config.model.moe.shared_gate = true;
  return config;
}

class SharedTokens : public testing::TestWithParam<Dealt> {};

TEST_P(SharedTokens, ComputeWhatOneRankComputes) {
  Config config = without_capacity("fp64");
  config.parallel.numerics = Numerics::fast;
  config.optimizer.name = OptimizerKind::sgd;
  static const Result expected = train(config, 1);
  expect_near(train(on(config, GetParam()), GetParam().ranks), expected, 1e-12);
}

// Layouts that split layers are compared with others of the same number of splits.
TEST_P(SharedTokens, GiveTheSameBits) {
  const Dealt& layout = GetParam();
  for (const std::string precision : {"bf16", "fp32"}) {
    SCOPED_TRACE(precision);
    Config config = without_capacity(precision);
    config.parallel.exact_block = 1;
    static std::map<std::pair<std::string, int>, Result> alone;
    const auto [expected, added] = alone.try_emplace({precision, layout.tp});
    const Dealt reference{layout.tp, 1, 0, "", "none", 1, 1, "all_gather", layout.tp};
    if (added) expected->second = train(on(config, reference), layout.tp);
    expect_equal(train(on(config, layout), layout.ranks), expected->second);
  }
}

TEST_P(SharedTokens, WithBiasesAndSinksGiveTheSameBits) {
  const Dealt& layout = GetParam();
  Config config = gpt_oss("fp32");
  config.parallel.exact_block = 1;
  static std::map<int, Result> alone;
  const auto [same, added] = alone.try_emplace(layout.tp);
  const Dealt reference{layout.tp, 1, 0, "", "none", 1, 1, "all_gather", layout.tp};
  if (added) same->second = train(on(config, reference), layout.tp);
  expect_equal(train(on(config, layout), layout.ranks), same->second);
  config.parallel.numerics = Numerics::fast;
  config.parallel.exact_block = 0;
  config.run.precision = Precision::fp64;
  config.optimizer.name = OptimizerKind::sgd;
  static const Result expected = train(config, 1);
  expect_near(train(on(config, layout), layout.ranks), expected, 1e-12);
}

constexpr Dealt of_both{4, 4, 1, "", "none", 1, 2, "all_gather", 2};
INSTANTIATE_TEST_SUITE_P(ContextAndTensor, SharedTokens, testing::Values(of_both));
INSTANTIATE_TEST_SUITE_P(SlowContext, SharedTokens, testing::ValuesIn(sharing));
INSTANTIATE_TEST_SUITE_P(SlowTensor, SharedTokens, testing::ValuesIn(cutting));

// Without blocks of tokens, the unit of summation is a tensor-parallel rank's part of a
// micro-batch.
TEST(SlowDealtExpertsOf, CutLayersWithoutBlocks) {
  const Config config = without_capacity("bf16");
  const Result expected = train(on(config, {2, 1, 0, "", "none", 1, 1, "all_gather", 2}), 2);
  expect_equal(train(on(config, {4, 4, 1, "", "none", 1, 1, "all_gather", 2}), 4), expected);
}

// Adds expert tensor parallelism to a layout.
constexpr Dealt cut(Dealt layout, int slices) {
  layout.expert_tp = slices;
  return layout;
}
constexpr Dealt sliced[] = {
    cut({4, 1, 3, "", "full"}, 2),
    cut({4, 1, 2, "1f1b"}, 2),
    cut({4, 1, 1}, 4),
    cut({8, 2, 3, "zb1p", "selective"}, 2),
    cut({8, 2, 1, "", "none", 2}, 2),
    cut({2, 1, 0, "", "none", 1, 1, "all_gather", 2}, 2),
    cut({4, 1, 1, "", "none", 1, 2, "all_gather", 2}, 4),
    cut({8, 2, 2, "", "none", 1, 2, "ulysses", 2}, 2),
};

class SlicedExperts : public testing::TestWithParam<Dealt> {};

TEST_P(SlicedExperts, ComputeWhatOneRankComputes) {
  Config config = without_capacity("fp64");
  config.parallel.numerics = Numerics::fast;
  config.optimizer.name = OptimizerKind::sgd;
  static const Result expected = train(config, 1);
  expect_near(train(on(config, GetParam()), GetParam().ranks), expected, 1e-12);
}

// The reference has the fewest ranks with the same number of expert slices and layer splits.
TEST_P(SlicedExperts, GiveTheSameBits) {
  const auto [tp, slices] = std::pair(GetParam().tp, GetParam().expert_tp);
  for (const std::string precision : {"bf16", "fp32"}) {
    SCOPED_TRACE(precision);
    Config config = without_capacity(precision);
    config.parallel.exact_block = 1;
    const int ranks = std::max(tp, slices);
    const Dealt reference = cut({ranks, 1, 0, "", "none", 1, 1, "all_gather", tp}, slices);
    expect_equal(train(on(config, GetParam()), GetParam().ranks),
                 train(on(config, reference), ranks));
  }
}

INSTANTIATE_TEST_SUITE_P(Dealt, SlicedExperts, testing::Values(cut({4, 2, 1}, 2)));
INSTANTIATE_TEST_SUITE_P(SlowSlices, SlicedExperts, testing::ValuesIn(sliced));

// Without blocks of tokens, and with moments rounded by their position among all experts.
TEST(SlicedExpertsOf, WholeMicroBatchesAndNarrowMoments) {
  Config config = config_of("bf16", 4, "experts");
  config.optimizer.moment_dtype = StateType::bf16;
  const Result expected = train(on(config, cut({2, 1, 0}, 2)), 2);
  for (const Dealt& layout : {cut({4, 2, 0}, 2), cut({4, 2, 2}, 2), cut({4, 1, 3}, 2)}) {
    SCOPED_TRACE(text_of(layout));
    expect_equal(train(on(config, layout), layout.ranks), expected);
  }
}

// Muon on whole matrices of each expert, with moments rounded by their position in the model.
TEST(DealtExpertsOf, MuonAndNarrowMoments) {
  Config config = config_of("bf16", 4, "experts");
  config.optimizer.name = OptimizerKind::muon;
  config.optimizer.moment_dtype = StateType::bf16;
  const Result expected = train(config, 1);
  for (const Dealt& layout :
       {Dealt{2, 2, 0}, Dealt{4, 2, 1}, Dealt{4, 4, 2}, Dealt{4, 2, 3, "1f1b"}}) {
    SCOPED_TRACE(text_of(layout));
    expect_equal(train(on(config, layout), layout.ranks), expected);
  }
  config.model.moe.capacity_factor = 0;
  const Result cut = train(on(config, {2, 1, 0, "", "none", 1, 1, "all_gather", 2}), 2);
  expect_equal(train(on(config, {4, 2, 2, "", "none", 1, 1, "all_gather", 2}), 4), cut);
}

// Trains with routers that initially see no difference between experts: all rows go to the first
// top_k, which belong to a single rank.
Result train_on_one_expert(const Config& config, int ranks, std::vector<double>& imbalance) {
  Result result;
  std::mutex mutex;
  run_local_ranks(ranks, {.timeout_s = 60}, [&](Transport& transport) {
    const auto engine = start(config, transport, {.poison = true});
    for (const OwnedSlice& slice : engine->optimizer().layout().owned()) {
      const Parameter& parameter = engine->stage().definition().parameters[slice.parameter];
      if (!parameter.name.ends_with("router.weight")) continue;
      auto* master = reinterpret_cast<float*>(engine->optimizer().master(slice));
      std::fill_n(master, slice.count(), 0.f);
    }
    engine->refresh_compute();
    for (int s = 0; s < 2; ++s) {
      const StepResult done = step(*engine, transport.place().rank, config, s);
      if (transport.place().rank > 0) continue;
      if (s == 0) imbalance = done.experts.imbalance;
      EXPECT_EQ(done.experts.dropped, 0);
      result.losses.push_back(done.loss.mean());
      result.norms.push_back(done.grad_norm);
    }
    const std::lock_guard lock(mutex);
    collect(*engine, result.weights);
  });
  return result;
}

// Two ranks take two rounds of two experts; four ranks take rounds of one.
TEST(DealtExpertsOf, AllRowsAtOneRankTakeMoreRounds) {
  Config config = config_of("bf16", 4, "experts");
  config.model.moe.score = RouterScore::softmax;
  config.model.moe.expert_bias = false;
  config.model.moe.capacity_factor = 0;
  config.model.moe.top_k = 4;
  std::vector<double> imbalance;
  const Result expected = train_on_one_expert(config, 1, imbalance);
  for (const double load : imbalance) EXPECT_DOUBLE_EQ(load, 2);
  for (const Dealt& layout : {Dealt{2, 2, 0}, Dealt{4, 4, 3}, Dealt{4, 2, 2, "", "full"}}) {
    SCOPED_TRACE(text_of(layout));
    expect_equal(train_on_one_expert(on(config, layout), layout.ranks, imbalance), expected);
    for (const double load : imbalance) EXPECT_DOUBLE_EQ(load, 2);
  }
  const Result in_slices = train_on_one_expert(on(config, cut({2, 1, 0}, 2)), 2, imbalance);
  expect_equal(train_on_one_expert(on(config, cut({4, 2, 1}, 2)), 4, imbalance), in_slices);
}

}  // namespace
}  // namespace trireme
