// Tests of QK-clip, of weight decay on the norms of queries and keys, and of maximal-update
// parametrization: which weights they change and by how much, and the same bits on every layout.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "named.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

// Queries and keys are large enough for heads to exceed the threshold.
Config clipping_config(const std::string& precision, const std::string& family = "llama") {
  Config config = config_of(precision, 12, family);
  config.model.num_kv_heads = family == "latent" ? 4 : 2;
  config.model.init_std = family == "latent" ? 0.5 : 0.08;
  config.optimizer.name = OptimizerKind::muon;
  config.optimizer.qk_clip_threshold = 0.05;
  return config;
}

struct ClipLayout {
  int ranks, zero = 0, pp = 1, cp = 1, tp = 1;
  const char *schedule = "1f1b", *attention = "all_gather";
};

void expect_same_bits(Config config, const std::vector<ClipLayout>& layouts) {
  config.parallel.exact_block = 2;
  const Result expected = train(config, 1, 3);
  Config without = config;
  without.optimizer.qk_clip_threshold = 0;
  EXPECT_FALSE(train(without, 1, 3).weights == expected.weights);
  for (const ClipLayout& layout : layouts) {
    SCOPED_TRACE(fmt::format("{} ranks, ZeRO {}, pp {}, cp {}, tp {}", layout.ranks, layout.zero,
                             layout.pp, layout.cp, layout.tp));
    config.parallel.zero = layout.zero;
    config.parallel.pp = layout.pp;
    config.parallel.cp = layout.cp;
    config.parallel.tp = layout.tp;
    config.parallel.schedule = named(layout.schedule);
    config.parallel.cp_attention = named(layout.attention);
    const Result result = train(config, layout.ranks, 3);
    EXPECT_EQ(result.losses, expected.losses);
    EXPECT_TRUE(result.weights == expected.weights);
  }
}

TEST(QkClip, LayoutsGiveTheSameBits) {
  for (const std::string family : {"llama", "latent"}) {
    SCOPED_TRACE(family);
    expect_same_bits(
        clipping_config("bf16", family),
        {{2}, {4, 2}, {6, 3}, {2, 0, 2, 1, 1, "gpipe"}, {4, 3, 2, 1, 1, "zbv"}, {2, 0, 1, 2}});
  }
  Config config = clipping_config("bf16");
  config.optimizer.name = OptimizerKind::adamw;
  config.model.num_kv_heads = 4;
  config.parallel.exact_leaves = 4;
  expect_same_bits(config, {{2, 0, 1, 1, 2}, {4, 1, 1, 1, 4}, {2, 0, 1, 2, 1, "1f1b", "ulysses"}});
}

// The factor between two rows of weights, which all their elements must have.
double factor_of(const std::vector<double>& scaled, const std::vector<double>& plain,
                 std::int64_t row, std::int64_t columns) {
  const double factor = scaled[row * columns] / plain[row * columns];
  for (std::int64_t c = 1; c < columns; ++c)
    EXPECT_NEAR(scaled[row * columns + c], factor * plain[row * columns + c], 1e-12);
  return factor;
}

double largest_score(const Config& config) {
  double largest = 0;
  run_local_ranks(1, {.timeout_s = 60}, [&](Transport& transport) {
    largest = step(*start(config, transport), 0, config, 0).largest_score;
  });
  return largest;
}

TEST(QkClip, QueriesAndKeysOfLoudHeadsShrinkTogether) {
  Config config = clipping_config("fp64");
  config.parallel.numerics = Numerics::fast;
  config.optimizer.qk_clip_alpha = 0.3;
  const double largest = largest_score(config);
  config.optimizer.qk_clip_threshold = 0.9 * largest;  // which not all heads exceed
  const Result clipped = train(config, 1, 1);
  config.optimizer.qk_clip_threshold = 0;
  const Result plain = train(config, 1, 1);
  const std::int64_t head_dim = 4, columns = 16, group = 4 * head_dim;  // two queries, key, value
  double least = 1;
  int untouched = 0;
  for (const auto& [name, after] : clipped.weights) {
    const auto& before = plain.weights.at(name);
    if (!name.starts_with("layers.") || !name.ends_with("attention.qkv.weight")) {
      EXPECT_EQ(after, before) << name;
      continue;
    }
    for (std::int64_t g = 0; g < 2; ++g) {
      const double query = factor_of(after, before, g * group, columns);
      const double shrink = std::pow(query, 1 / 0.3);
      least = std::min(least, shrink);
      untouched += query == 1;
      for (std::int64_t r = 0; r < group; ++r) {
        const double expected = r < 2 * head_dim   ? query
                                : r < 3 * head_dim ? std::pow(shrink, 0.7)
                                                   : 1;
        EXPECT_NEAR(factor_of(after, before, g * group + r, columns), expected, 1e-12);
      }
    }
  }
  EXPECT_GT(untouched, 0);
  EXPECT_NEAR(least, 0.9, 1e-12);
}

TEST(QkClip, TheSharedKeyOfLatentAttentionStays) {
  Config config = clipping_config("fp64", "latent");
  config.parallel.numerics = Numerics::fast;
  const Result clipped = train(config, 1, 1);
  config.optimizer.qk_clip_threshold = 0;
  const Result plain = train(config, 1, 1);
  int loud = 0;
  for (const auto& [name, after] : clipped.weights) {
    const auto& before = plain.weights.at(name);
    const bool query = name.starts_with("layers.") && name.ends_with("attention.query.weight");
    const bool kv = name.starts_with("layers.") && name.ends_with("attention.kv.weight");
    if (!query && !kv) {
      EXPECT_EQ(after, before) << name;
      continue;
    }
    // Heads of a query: two turned rows, four plain ones; of keys and values: four rows each.
    const std::int64_t rows = query ? 6 : 8, columns = query ? 10 : 6;
    for (std::int64_t head = 0; head < 4; ++head) {
      const std::int64_t first = head * rows;
      const double plain_rows = factor_of(after, before, first + (query ? 2 : 0), columns);
      loud += plain_rows < 1;
      EXPECT_NEAR(factor_of(after, before, first + (query ? 0 : 4), columns),
                  query ? plain_rows * plain_rows : 1, 1e-12);
    }
  }
  EXPECT_GT(loud, 0);
}

TEST(DecayOfQkNorms, ChangesTheirWeightsAlone) {
  Config config = config_of("fp64", 4, "llama");
  config.parallel.numerics = Numerics::fast;
  config.model.qk_norm = true;
  config.optimizer.weight_decay = 0.5;
  for (const NormSpan span : {NormSpan::head, NormSpan::all_heads}) {
    config.model.qk_norm_over = span;
    config.optimizer.decay_qk_norms = false;
    const Result plain = train(config, 1, 1);
    config.optimizer.decay_qk_norms = true;
    const Result decayed = train(config, 1, 1);
    int norms = 0;
    for (const auto& [name, weights] : decayed.weights) {
      const bool decays = name.starts_with("layers.") && (name.ends_with("query_norm.weight") ||
                                                          name.ends_with("key_norm.weight"));
      norms += decays;
      const double kept = decays ? config.optimizer.lr * 0.5 : 0;  // the weights began at 1
      for (std::size_t i = 0; i < weights.size(); ++i)
        EXPECT_NEAR(weights[i], plain.weights.at(name)[i] - kept, 1e-15) << name;
    }
    EXPECT_EQ(norms, 2 * config.model.num_layers);
  }
}

bool is_matrix_of_block(const std::string& tensor) {
  return tensor.starts_with("layers.") && tensor.ends_with(".weight") &&
         !tensor.ends_with("norm.weight");
}

// The largest change of any element in one step of an optimizer whose steps have the size of the
// learning rate, by kind of parameter.
TEST(MaximalUpdate, RatesAndInitialWeightsFollowTheWidth) {
  for (const std::string name : {"adamw", "lion", "sgd", "muon"}) {
    SCOPED_TRACE(name);
    Config config = config_of("fp64", 4, "gpt");
    config.parallel.numerics = Numerics::fast;
    config.model.hidden_dropout = 0;
    config.model.given.clear();
    config.model.attention_scale = 0;
    config.model.mup_base_hidden_size = 4;  // a quarter
    config.model.tie_embeddings = false;
    resolve(config.model);
    EXPECT_EQ(config.model.logit_multiplier, 0.25);
    EXPECT_EQ(config.model.attention_scale, 0.25);  // 1 / head_dim
    config.optimizer.name = named(name);
    config.optimizer.weight_decay = 0;
    config.optimizer.eps = 1e-30;
    const Result before = train(config, 1, 0), after = train(config, 1, 1);
    Config plain = config;
    plain.model.mup_base_hidden_size = 0;  // the multipliers stay
    const Result wide = train(plain, 1, 0);
    const double lr = config.optimizer.lr;
    for (const auto& [tensor, weights] : before.weights) {
      if (tensor.starts_with("optimizer.")) continue;
      const bool is_matrix = is_matrix_of_block(tensor);
      double largest = 0;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        largest = std::max(largest, std::abs(after.weights.at(tensor)[i] - weights[i]));
        EXPECT_NEAR(weights[i], wide.weights.at(tensor)[i] * (is_matrix ? 0.5 : 1), 1e-15);
      }
      if (name == "sgd" || (name == "muon" && is_matrix)) continue;
      EXPECT_NEAR(largest, is_matrix && name != "muon" ? lr / 4 : lr, 1e-9) << tensor;
    }
    if (name != "sgd") continue;
    // The steps, divided by the rates of their kinds, are the clipped gradient.
    double squares = 0;
    for (const auto& [tensor, weights] : before.weights) {
      if (tensor.starts_with("optimizer.")) continue;
      const double rate = is_matrix_of_block(tensor) ? lr : 4 * lr;
      for (std::size_t i = 0; i < weights.size(); ++i)
        squares += std::pow((after.weights.at(tensor)[i] - weights[i]) / rate, 2);
    }
    const double norm = after.norms[0];
    EXPECT_NEAR(std::sqrt(squares), std::min(norm, norm / (norm + 1e-6)), 1e-9);
  }
}

// Epsilon counts here.
TEST(MaximalUpdate, RoutersStepAlikeWithAdamWAndBesideMuon) {
  Config config = config_of("fp64", 4, "experts");
  config.parallel.numerics = Numerics::fast;
  config.model.mup_base_hidden_size = 4;
  resolve(config.model);
  config.optimizer.eps = 1e-3;
  const Result adamw = train(config, 1, 1);
  config.optimizer.name = OptimizerKind::muon;
  const Result muon = train(config, 1, 1);
  int routers = 0;
  for (const auto& [name, weights] : adamw.weights) {
    if (!name.starts_with("layers.") || !name.ends_with("router.weight")) continue;
    ++routers;
    EXPECT_EQ(muon.weights.at(name), weights) << name;
  }
  EXPECT_GT(routers, 0);
}

// The counts of a layer's choices stay on one rank (StateOptions::grain).
TEST(ManyExperts, LayoutsGiveTheSameBits) {
  Config config = config_of("bf16", 12, "experts");
  config.model.num_layers = 2;
  config.model.moe.num_experts = 384;
  config.model.moe.ffn_hidden_size = 16;
  config.model.moe.capacity_factor = 0;
  const Result expected = train(config, 1, 2);
  for (const auto& [ranks, zero, ep] : {std::tuple{3, 1, 1}, {4, 3, 1}, {4, 2, 2}}) {
    SCOPED_TRACE(fmt::format("{} ranks, ZeRO {}, ep {}", ranks, zero, ep));
    config.parallel.zero = zero;
    config.parallel.ep = ep;
    EXPECT_TRUE(train(config, ranks, 2).weights == expected.weights);
  }
}

TEST(MaximalUpdate, LayoutsGiveTheSameBits) {
  Config config = config_of("bf16", 12, "experts");
  config.model.mup_base_hidden_size = 4;
  resolve(config.model);
  const Result expected = train(config, 1);
  for (const auto& [ranks, zero, pp, ep] :
       {std::tuple{2, 1, 1, 1}, {4, 3, 2, 1}, {4, 1, 1, 2}, {2, 0, 2, 1}}) {
    SCOPED_TRACE(fmt::format("{} ranks, ZeRO {}, pp {}, ep {}", ranks, zero, pp, ep));
    config.parallel.zero = zero;
    config.parallel.pp = pp;
    config.parallel.ep = ep;
    EXPECT_TRUE(train(config, ranks).weights == expected.weights);
  }
}

}  // namespace
}  // namespace trireme
