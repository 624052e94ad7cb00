// Tests of exact numerics with leaves: the degree of tensor parallelism changes no bit. For a
// longer run of random layouts, set TRIREME_LAYOUTS=200 TRIREME_LAYOUTS_SEED=1.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/error.h"
#include "named.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

using Names = std::vector<std::string>;

// Eight query heads in four groups, or four heads with "gpt" and "alibi". Together the families
// cover every attribute that a decoder can have.
Config leaves_model(const std::string& family, const std::string& precision) {
  const bool gpt = family == "gpt" || family == "alibi";
  Config config = config_of(precision, 4, gpt ? "gpt" : "llama");
  ModelConfig& m = config.model;
  m.ffn_hidden_size = 24;
  if (family == "alibi") {
    m.position = PositionEncoding::alibi;
    m.embedding_norm = true;
    m.tie_embeddings = false;
    m.activation = MlpActivation::squared_relu;
  }
  if (!gpt) {
    m.num_heads = 8;
    m.num_kv_heads = 4;
    m.head_dim = 4;
    m.qk_norm = true;
  }
  if (family.starts_with("mtp")) m.mtp_layers = 2;
  if (family == "windows" || family == "mtp windows") {  // as Gemma 3
    m.tie_embeddings = m.scale_embedding = true;
    m.zero_centered_norms = m.zero_centered_qk_norms = true;
    m.activation = MlpActivation::geglu;
    m.attention_window = 5;
    m.window_layers = {0, 2};
    m.rope_base_local = 100;
    m.attention_soft_cap = 20;
    m.logit_soft_cap = 10;
    m.attention_dropout = 0.1;
    m.norm_placement = NormPlacement::both;
  }
  if (family == "outputs") {  // as EXAONE 4 and Granite
    m.norm_placement = NormPlacement::output;
    m.bias = m.qkv_bias = true;
    m.rope_percent = 0.5;
    m.no_rope_layers = {1, 3};
    m.attention_scale = 0.3;
    m.embedding_multiplier = 3;
    m.residual_multiplier = 0.5;
    m.logit_multiplier = 0.25;
  }
  if (family == "delta") {  // as Qwen3-Next
    m.zero_centered_norms = m.zero_centered_qk_norms = m.attention_gate = true;
    m.rope_percent = 0.5;
    m.linear_layers = {0, 2};
    m.linear_key_heads = 4;
    m.linear_value_heads = 8;
    m.linear_key_head_dim = 3;
    m.linear_value_head_dim = 5;
  }
  config.parallel.exact_block = 2;
  config.parallel.exact_leaves = 4;
  config.optimizer.initial_loss_scale = 0x1p24;
  config.optimizer.loss_scale_window = 2;
  config.optimizer.hysteresis = 1;
  return config;
}

Config with(Config config, int tp, bool sequence_parallel, int pp = 1, int zero = 0) {
  config.parallel.tp = tp;
  config.parallel.sequence_parallel = sequence_parallel;
  config.parallel.pp = pp;
  config.parallel.zero = zero;
  return config;
}

void expect_same(const Result& result, const Result& expected) {
  EXPECT_EQ(result.finite, expected.finite);
  EXPECT_EQ(result.losses, expected.losses);
  EXPECT_EQ(result.norms, expected.norms);
  for (const auto& [name, values] : expected.weights)  // and moments
    EXPECT_TRUE(result.weights.at(name) == values) << name;
}

TEST(ExactLeaves, GiveTheSameBitsForEveryDegree) {
  for (const auto& [family, precision] : {std::pair{"gpt", "bf16"},
                                          {"llama", "fp32"},
                                          {"windows", "bf16"},
                                          {"outputs", "bf16"},
                                          {"delta", "bf16"},
                                          {"delta", "fp32"},
                                          {"mtp llama", "fp32"},
                                          {"mtp windows", "bf16"}}) {
    SCOPED_TRACE(fmt::format("{} {}", family, precision));
    const Config config = leaves_model(family, precision);
    const Result expected = train(config, 1);
    expect_same(train(with(config, 2, false), 2), expected);
    expect_same(train(with(config, 2, true, 2, 1), 4), expected);
    expect_same(train(with(config, 4, true), 4), expected);
  }
}

// The summation tree determines the bits: a different one shows in every kind of result.
TEST(ExactLeaves, OfAnotherNumberGiveOtherBits) {
  Config config = leaves_model("llama", "fp32");
  const Result four = train(config, 1);
  config.parallel.exact_leaves = 2;
  const Result two = train(config, 1);
  EXPECT_NE(two.losses, four.losses);
  EXPECT_NE(two.norms, four.norms);
  EXPECT_FALSE(two.weights == four.weights);
}

// Gradient norm squares are summed over parts of a parameter that are never split across ranks.
TEST(ExactLeaves, CutNoPartOfTheNorm) {
  for (const char* family : {"gpt", "alibi", "llama", "windows", "outputs", "delta", "mtp llama"}) {
    const Config config = leaves_model(family, "fp32");
    BuildOptions options;
    options.batch = batch;
    options.exact_block = config.parallel.exact_block;
    options.tensor = {.size = 4, .rank = 1, .leaves = 4};
    const StageDefinition stage = build_model(config.model, options);
    for (const Parameter& parameter : stage.parameters) {
      const ParameterSpec& spec = parameter.spec;
      if (!spec.split) continue;
      const bool by_columns = spec.shape.rank() == 2 && spec.shape[1] < spec.saved_shape[1];
      const auto pieces = std::max<std::int64_t>(1, std::ssize(spec.pieces));
      const std::int64_t adjacent = by_columns ? spec.shape[1] : spec.shape.count() / pieces;
      EXPECT_EQ(adjacent % spec.squares_at_once, 0) << family << " " << parameter.name;
    }
  }
}

class LeafLayouts {
 public:
  explicit LeafLayouts(int seed) : random_(static_cast<unsigned>(seed)) {}

  // Sets a random layout that the configuration allows, on 1 to 8 ranks.
  int choose(Config& config) {
    for (;;) {
      ParallelConfig p = config.parallel;
      const int ranks = one_of(std::vector<int>{1, 2, 4, 8});
      p.tp = one_of(std::vector<int>{1, 2, 4});
      p.sequence_parallel = one_of(std::vector<int>{0, 1}) == 1;
      p.pp = one_of(std::vector<int>{1, 1, 2, 4});
      p.schedule = named(one_of(Names{"gpipe", "1f1b", "zb1p", "zbv", "vhalf"}));
      p.cp = one_of(std::vector<int>{1, 1, 2});
      p.cp_attention = named(one_of(Names{"all_gather", "ulysses"}));
      p.zero = one_of(std::vector<int>{0, 1, 2, 3});
      p.recompute = named(one_of(Names{"none", "selective", "full"}));
      Config chosen = config;
      chosen.parallel = p;
      try {
        validate_layout(chosen, ranks);
      } catch (const Error&) {
        continue;  // try another layout
      }
      config = chosen;
      return ranks;
    }
  }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random_)];
  }

 private:
  std::mt19937 random_;
};

void try_layouts(int count, int seed) {
  LeafLayouts layouts(seed);
  std::map<std::pair<std::string, std::string>, Result> alone;
  for (int i = 0; i < count; ++i) {
    const auto family = layouts.one_of(
        Names{"gpt", "alibi", "llama", "windows", "outputs", "mtp llama", "mtp windows"});
    const auto precision = layouts.one_of(Names{"bf16", "fp32", "fp16"});
    Config config = leaves_model(family, precision);
    const auto [reference, added] = alone.try_emplace({family, precision});
    if (added) reference->second = train(config, 1, 5);
    const int ranks = layouts.choose(config);
    const ParallelConfig& p = config.parallel;
    SCOPED_TRACE(fmt::format("{} {}, {} ranks, tp {}{}, pp {} {}, cp {} {}, ZeRO {}, recompute {}",
                             family, precision, ranks, p.tp, p.sequence_parallel ? " sp" : "", p.pp,
                             p.schedule, p.cp, p.cp_attention, p.zero, p.recompute));
    expect_same(train(config, ranks, 5), reference->second);
  }
}

int layouts_wanted(int otherwise) {
  const char* text = std::getenv("TRIREME_LAYOUTS");
  return text ? std::atoi(text) : otherwise;
}

int layouts_seed() {
  const char* text = std::getenv("TRIREME_LAYOUTS_SEED");
  return text ? std::atoi(text) : 1;
}

TEST(SlowExactLeaves, RandomLayouts) {
  try_layouts(10, layouts_seed());
}

TEST(LongExactLeaves, RandomLayouts) {
  try_layouts(layouts_wanted(300), layouts_seed() + 1);
}

}  // namespace
}  // namespace trireme
