// Tests of fp8 GEMMs across ranks: exact layouts keep their bits, and ranks that share matrices and
// sequences round as one rank does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "named.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

struct Layout {
  const char* name;
  int ranks;
  void (*change)(ParallelConfig&);
};

void alone(ParallelConfig&) {}
void shards(ParallelConfig& p) {
  p.zero = 3;
  p.recompute = Recompute::selective;
}
void pipeline(ParallelConfig& p) {
  p.pp = 2;
  p.schedule = ScheduleKind::zbv;
  p.zero = 1;
  p.recompute = Recompute::full;
}
void long_pipeline(ParallelConfig& p) {
  p.pp = 4;
  p.schedule = ScheduleKind::zb1p;
}
void sequences(ParallelConfig& p) {
  p.cp = 2;
  p.zero = 2;
}
void tensors(ParallelConfig& p) {
  p.tp = 2;
}
void tensors_and_rows(ParallelConfig& p) {
  p.tp = 2;
  p.sequence_parallel = true;
}
void tensors_and_sequences(ParallelConfig& p) {
  p.tp = 2;
  p.cp = 2;
  p.sequence_parallel = true;
}

Config fp8_config(const std::string& recipe, const std::string& precision, const char* family) {
  Config config = config_of(precision, 4, family);
  config.fp8.recipe = named(recipe);
  config.fp8.format = Fp8Mix::hybrid;
  config.fp8.power_of_2_scales = recipe == "blockwise";
  config.fp8.last_layers_bf16 = 1;
  return config;
}

Result train_on(Config config, const Layout& layout) {
  layout.change(config.parallel);
  validate_layout(config, layout.ranks);
  return train(config, layout.ranks);
}

void expect_same_bits(const Config& config, const Layout& first,
                      const std::vector<Layout>& layouts) {
  const Result expected = train_on(config, first);
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(layout.name);
    const Result result = train_on(config, layout);
    EXPECT_EQ(result.losses, expected.losses);
    EXPECT_EQ(result.norms, expected.norms);
    EXPECT_TRUE(result.weights == expected.weights);
  }
}

class Fp8Runs : public testing::TestWithParam<std::string> {};

TEST_P(Fp8Runs, ExactLayoutsKeepTheirBits) {
  const Config config = fp8_config(GetParam(), "bf16", "llama");
  expect_same_bits(config, {"one rank", 1, alone},
                   {{"data", 4, alone},
                    {"shards", 2, shards},
                    {"pipeline", 4, pipeline},
                    {"long pipeline", 4, long_pipeline}});
  expect_same_bits(fp8_config("tensorwise", "bf16", "gpt"), {"tensors", 2, tensors},
                   {{"tensors and data", 4, tensors}});
}

TEST_P(Fp8Runs, ExactBlocksKeepTheirBitsOverContextRanks) {
  Config config = fp8_config(GetParam(), "fp32", "gpt");
  config.parallel.exact_block = 2;
  expect_same_bits(config, {"one rank", 1, alone},
                   {{"sequences", 2, sequences}, {"sequences and data", 4, sequences}});
}

void dealt(ParallelConfig& p) {
  p.ep = 2;
}
void dealt_to_all(ParallelConfig& p) {
  p.ep = 4;
  p.zero = 3;
  p.recompute = Recompute::full;
}
void dealt_in_a_pipeline(ParallelConfig& p) {
  p.ep = 2;
  p.pp = 2;
  p.schedule = ScheduleKind::one_f_one_b;
  p.zero = 1;
}
void dealt_with_sequences(ParallelConfig& p) {
  p.ep = 4;
  p.cp = 2;
  p.zero = 2;
}
void dealt_with_tensors(ParallelConfig& p) {
  p.tp = p.ep = 2;
  p.sequence_parallel = true;
}
void tensors_of_rows(ParallelConfig& p) {
  p.tp = 2;
  p.sequence_parallel = true;
}

class Fp8Experts : public Fp8Runs {};

// The layout does not determine which rows of an expert share a scale.
TEST_P(Fp8Experts, KeepTheirBits) {
  Config config = fp8_config(GetParam(), "bf16", "experts");
  config.model.moe.shared_ffn_hidden_size = 16;
  config.model.moe.residual = GetParam() == "blockwise";
  expect_same_bits(config, {"one rank", 1, alone},
                   {{"data", 4, alone},
                    {"dealt", 2, dealt},
                    {"dealt to all", 4, dealt_to_all},
                    {"dealt in a pipeline", 4, dealt_in_a_pipeline}});
  config.model.moe.capacity_factor = 0;
  config.parallel.exact_block = 2;
  expect_same_bits(
      config, {"one rank, in blocks", 1, alone},
      {{"sequences", 2, sequences}, {"dealt with sequences", 4, dealt_with_sequences}});
  if (GetParam() == "blockwise") return;  // a block of 128 would be split
  expect_same_bits(config, {"tensors of rows", 2, tensors_of_rows},
                   {{"dealt with tensors", 2, dealt_with_tensors}});
}

// In double precision, only a different scale would make a visible difference.
TEST_P(Fp8Runs, RanksThatShareAMatrixOrASequenceRoundAsOneDoes) {
  Config config = fp8_config(GetParam(), "fp64", "llama");
  std::vector<Layout> layouts = {{"tensors", 2, tensors},
                                 {"tensors and rows", 2, tensors_and_rows}};
  if (GetParam() == "tensorwise") {
    config.model.num_kv_heads = 2;
    layouts.push_back({"sequences", 2, sequences});
    layouts.push_back({"tensors and sequences", 4, tensors_and_sequences});
  } else {  // whole blocks on each rank
    config.model.num_layers = 2;
    config.model.num_heads = config.model.num_kv_heads = 2;
    config.model.head_dim = 128;
    config.model.ffn_hidden_size = 256;
  }
  config.parallel.numerics = Numerics::fast;
  config.optimizer.name = OptimizerKind::sgd;
  const Result expected = train_on(config, {"one rank", 1, alone});
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(layout.name);
    expect_near(train_on(config, layout), expected, 1e-6);
  }
}

// Results differ from those of unquantized GEMMs, but stay close to them.
TEST_P(Fp8Runs, DifferFromPlainRunsByTheirRounding) {
  Config config = fp8_config(GetParam(), "fp32", "gpt");
  const Result rounded = train_on(config, {"one rank", 1, alone});
  config.fp8 = {};
  const Result plain = train_on(config, {"one rank", 1, alone});
  EXPECT_NE(rounded.losses[0], plain.losses[0]);
  EXPECT_NEAR(rounded.losses[0], plain.losses[0], 0.02 * plain.losses[0]);
}

INSTANTIATE_TEST_SUITE_P(Recipes, Fp8Runs, testing::Values("tensorwise", "blockwise"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(SlowRecipes, Fp8Experts, testing::Values("tensorwise", "blockwise"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trireme
