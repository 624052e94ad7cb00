// Tests of exact numerics with leaves: the degree of tensor parallelism changes no bit. For a
// longer run of random layouts, set TRIREME_LAYOUTS=200 TRIREME_LAYOUTS_SEED=1.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include "base/error.h"
#include "config/run_rules.h"
#include "named.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

using Names = std::vector<std::string>;

// Names of leaves_model(). Together they cover every attribute that a model can have.
const Names families = {"gpt",         "alibi",       "bert",         "llama",         "windows",
                        "outputs",     "olmo",        "one key head", "gpt-oss",       "experts",
                        "residual",    "latent",      "delta",        "delta experts", "mtp llama",
                        "mtp windows", "mtp experts", "llama4",       "mamba",         "parts"};

void as_gemma(ModelConfig& m) {
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

// As EXAONE 4 and Granite.
void as_granite(ModelConfig& m) {
  m.norm_placement = NormPlacement::output;
  m.bias = m.qkv_bias = true;
  m.rope_percent = 0.5;
  m.no_rope_layers = {1, 3};
  m.attention_scale = 0.3;
  m.embedding_multiplier = 3;
  m.residual_multiplier = 0.5;
  m.logit_multiplier = 0.25;
}

void as_gpt_oss(ModelConfig& m) {
  m.num_kv_heads = 2;
  m.qk_norm = false;
  m.qkv_bias = m.attention_sinks = true;
  m.attention_window = 3;
  m.window_layers = {0, 2};
  m.moe.num_experts = 8;
  m.moe.ffn_hidden_size = 24;
  m.moe.linear_bias = m.moe.router_bias = true;
}

void as_qwen3_next(ModelConfig& m) {
  m.zero_centered_norms = m.zero_centered_qk_norms = m.attention_gate = true;
  m.rope_percent = 0.5;
  m.linear_layers = {0, 2};
  m.linear_key_heads = 4;
  m.linear_value_heads = 8;
  m.linear_key_head_dim = 3;
  m.linear_value_head_dim = 5;
}

// As Granite 4.
void as_mamba(ModelConfig& m) {
  m.position = PositionEncoding::none;
  m.linear_layers = {0, 2};
  m.linear_kind = LinearKind::mamba2;
  m.linear_key_heads = 4;
  m.linear_value_heads = 8;
  m.linear_key_head_dim = 3;
  m.linear_value_head_dim = 5;
  m.linear_conv_bias = true;
}

// As Nemotron-H.
void as_parts(ModelConfig& m) {
  as_mamba(m);
  m.linear_layers = {0};
  m.mlp_layers = {2};
  m.activation = MlpActivation::squared_relu;
}

// Eight query heads in four groups, or four heads with "gpt", "alibi", "bert" and "latent".
Config leaves_model(const std::string& family, const std::string& precision) {
  const auto is = [&](const char* name) {
    return family == name || family == fmt::format("mtp {}", name);
  };
  const bool gpt = is("gpt") || is("alibi"), bert = is("bert"), latent = is("latent");
  const std::string base = is("experts") ? "experts"
                           : is("delta experts") || is("residual") || is("llama4") || latent || bert
                               ? family
                           : gpt ? "gpt"
                                 : "llama";
  Config config = config_of(precision, 4, base);
  ModelConfig& m = config.model;
  m.ffn_hidden_size = 24;
  m.moe.capacity_factor = 0;  // which conflicts with tp
  if (is("alibi")) {
    m.position = PositionEncoding::alibi;
    m.embedding_norm = true;
    m.tie_embeddings = false;
    m.activation = MlpActivation::squared_relu;
  }
  if (!gpt && !bert && !latent) {
    m.num_heads = 8;
    m.num_kv_heads = 4;
    m.head_dim = 4;
    m.qk_norm = !is("llama4");  // which has its own
  }
  if (family.starts_with("mtp")) m.mtp_layers = 2;
  if (is("windows")) as_gemma(m);
  if (is("outputs")) as_granite(m);
  if (is("olmo")) m.qk_norm_over = NormSpan::all_heads;
  if (is("one key head")) {
    m.num_kv_heads = 1;
    m.qkv_bias = true;
  }
  if (is("gpt-oss")) as_gpt_oss(m);
  if (is("delta") || is("delta experts")) as_qwen3_next(m);
  if (is("mamba")) as_mamba(m);
  if (is("parts")) as_parts(m);
  config.parallel.exact_block = bert ? 0 : 2;
  config.parallel.exact_leaves = 4;
  config.data.mask_prob = 1;  // BERT predicts every word
  config.data.path = {"unused"};
  config.run.dir = "unused";
  config.train.iters = 5;
  config.optimizer.initial_loss_scale = 0x1p24;
  config.optimizer.loss_scale_window = 2;
  config.optimizer.hysteresis = 1;
  return config;
}

// Products of `recipe`, in a model whose leaves are whole blocks of it.
void use_fp8(Config& config, const std::string& recipe) {
  config.fp8.recipe = named(recipe);
  if (config.fp8.recipe == Fp8Recipe::none) return;
  config.fp8.format = Fp8Mix::hybrid;
  config.fp8.first_layers_bf16 = 1;
  if (config.fp8.recipe != Fp8Recipe::blockwise) return;
  ModelConfig& m = config.model;
  m.head_dim = 128;
  m.ffn_hidden_size = 128 * config.parallel.exact_leaves;
  if (m.moe.shared_ffn_hidden_size > 0) m.moe.shared_ffn_hidden_size = m.ffn_hidden_size;
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
                                          {"olmo", "bf16"},
                                          {"one key head", "bf16"},
                                          {"gpt-oss", "fp32"},
                                          {"experts", "bf16"},
                                          {"residual", "fp32"},
                                          {"latent", "bf16"},
                                          {"delta experts", "fp32"},
                                          {"delta", "bf16"},
                                          {"delta", "fp32"},
                                          {"mtp llama", "fp32"},
                                          {"mtp windows", "bf16"}}) {
    SCOPED_TRACE(fmt::format("{} {}", family, precision));
    const Config config = leaves_model(family, precision);
    const Result expected = train(config, 1);
    if (config.model.moe.num_experts == 0) expect_same(train(with(config, 2, false), 2), expected);
    expect_same(train(with(config, 2, true, 2, 1), 4), expected);
    expect_same(train(with(config, 4, true), 4), expected);
  }
}

// Its micro-batches have the same rows on every layout without sequence parallelism.
TEST(ExactLeaves, GiveTheSameBitsForBert) {
  for (const char* precision : {"fp32", "bf16"}) {
    const Config config = leaves_model("bert", precision);
    const Result expected = train(config, 1);
    expect_same(train(with(config, 2, false), 2), expected);
    expect_same(train(with(config, 2, false, 2, 1), 4), expected);
    expect_same(train(with(config, 4, false, 1, 3), 4), expected);
  }
}

TEST(ExactLeaves, GiveTheSameBitsInFp8AndWithMuon) {
  for (const auto& [family, recipe, optimizer] : {std::tuple{"llama", "tensorwise", "adamw"},
                                                  {"one key head", "blockwise", "adamw"},
                                                  {"experts", "blockwise", "muon"},
                                                  {"latent", "none", "muon"}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", family, recipe, optimizer));
    Config config = leaves_model(family, "bf16");
    use_fp8(config, recipe);
    config.optimizer.name = named(optimizer);
    const Result expected = train(config, 1);
    expect_same(train(with(config, 2, true, 2), 4), expected);
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
  for (const std::string& family : families) {
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

// Heads that eight leaves divide, where the model has fewer.
void use_eight_heads(ModelConfig& m) {
  if (m.num_heads < 8) m.num_heads = m.num_kv_heads = 8;
  if (m.qk_norm_over == NormSpan::all_heads) m.num_kv_heads = 8;
  if (!m.linear_layers.empty()) {
    m.linear_key_heads = 8;
    m.linear_value_heads = 16;
  }
}

class LeafLayouts {
 public:
  explicit LeafLayouts(int seed) : random_(static_cast<unsigned>(seed)) {}

  struct Model {
    Config config;
    std::string family, name;
  };

  // A random model that one rank can train.
  Model model() {
    for (;;) {
      const auto family = one_of(families), precision = one_of(Names{"bf16", "fp32", "fp16"});
      const auto recipe = one_of(Names{"none", "none", "none", "tensorwise", "blockwise"});
      const auto optimizer = one_of(Names{"adamw", "adamw", "muon", "lion", "sgd"});
      Config config = leaves_model(family, precision);
      config.parallel.exact_leaves = one_of(std::vector<int>{2, 4, 8, 8});
      if (config.parallel.exact_leaves == 8) use_eight_heads(config.model);
      config.optimizer.name = named(optimizer);
      config.optimizer.qk_clip_threshold = optimizer == "muon" ? 0.1 : 0;
      use_fp8(config, recipe);
      try {
        check_run(config, 1);
      } catch (const Error&) {
        continue;
      }
      return {config, family,
              fmt::format("{} {} {} {}, {} leaves", family, precision, recipe, optimizer,
                          config.parallel.exact_leaves)};
    }
  }

  // Sets a random layout that the configuration allows, on 1 to 8 ranks.
  int choose(Config& config) {
    for (;;) {
      ParallelConfig p = config.parallel;
      const int ranks = one_of(std::vector<int>{1, 2, 4, 8, 8});
      p.tp = one_of(std::vector<int>{1, 2, 4, 8, 8});
      p.sequence_parallel = one_of(std::vector<int>{0, 1}) == 1;
      p.pp = one_of(std::vector<int>{1, 1, 2, 4});
      p.schedule = named(one_of(Names{"gpipe", "1f1b", "zb1p", "zbv", "vhalf"}));
      p.cp = one_of(std::vector<int>{1, 1, 2});
      p.cp_attention = named(one_of(Names{"all_gather", "ulysses"}));
      p.ep = config.model.moe.num_experts > 0 ? one_of(std::vector<int>{1, 2, 4}) : 1;
      p.zero = one_of(std::vector<int>{0, 1, 2, 3});
      p.recompute = named(one_of(Names{"none", "selective", "full"}));
      Config chosen = config;
      chosen.parallel = p;
      try {
        check_run(chosen, ranks);
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
  std::map<std::string, Result> alone;
  std::map<std::string, std::map<std::int64_t, int>> tried;  // by family and tp
  for (int i = 0; i < count; ++i) {
    auto [config, family, name] = layouts.model();
    const auto [reference, added] = alone.try_emplace(name);
    if (added) reference->second = train(config, 1, 5);
    const int ranks = layouts.choose(config);
    const ParallelConfig& p = config.parallel;
    ++tried[family][p.tp];
    SCOPED_TRACE(
        fmt::format("{}, {} ranks, tp {}{}, pp {} {}, cp {} {}, ep {}, ZeRO {}, recompute {}", name,
                    ranks, p.tp, p.sequence_parallel ? " sp" : "", p.pp, p.schedule, p.cp,
                    p.cp_attention, p.ep, p.zero, p.recompute));
    expect_same(train(config, ranks, 5), reference->second);
  }
  std::printf("%d layouts of %d models\n", count, static_cast<int>(alone.size()));
  for (const auto& [family, by_tp] : tried)
    for (const auto& [tp, layouts_of] : by_tp)
      std::printf("%s, tp %d: %d\n", family.c_str(), static_cast<int>(tp), layouts_of);
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
