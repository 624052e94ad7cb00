// Tests of Muon on ranks that share the states, split the layers or form a pipeline: the same bits
// as on one rank, which matrices each rank keeps, and two-byte states.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "named.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

constexpr int steps = 4;

Config muon_config(const std::string& precision, const std::string& family = "llama") {
  Config config = config_of(precision, 12, family);
  config.model.num_kv_heads = 2;  // q is larger than k and v
  config.optimizer.name = OptimizerKind::muon;
  config.optimizer.muon_lr = 0.02;
  return config;
}

struct Layout {
  int ranks, zero = 0, pp = 1, dp_replicate = 1;
  const char* schedule = "1f1b";
};

TEST(WholeMatrices, LayoutsGiveTheSameBits) {
  const Layout layouts[] = {{2},
                            {3},
                            {2, 1},
                            {3, 1},
                            {6, 1},
                            {4, 2},
                            {6, 3},
                            {4, 1, 1, 2},
                            {4, 3, 1, 2},
                            {2, 0, 2, 1, "gpipe"},
                            {4, 1, 2, 1, "1f1b"},
                            {4, 2, 2, 1, "zb1p"},
                            {4, 3, 2, 1, "zbv"},
                            {6, 1, 2, 1, "vhalf"}};
  for (const std::string precision : {"fp32", "bf16"}) {
    for (const std::string moments : {"fp32", "bf16"}) {
      if (precision == "fp32" && moments == "bf16") continue;
      Config config = muon_config(precision);
      config.optimizer.moment_dtype = named(moments);
      const Result expected = train(config, 1, steps);
      ASSERT_LT(expected.losses.back(), expected.losses.front());
      for (const Layout& layout : layouts) {
        if (precision == "bf16" && layout.ranks != 4) continue;
        SCOPED_TRACE(fmt::format("{}, moments {}, {} ranks, ZeRO {}, pp {} {}", precision, moments,
                                 layout.ranks, layout.zero, layout.pp, layout.schedule));
        config.parallel.zero = layout.zero;
        config.parallel.pp = layout.pp;
        config.parallel.dp_replicate = layout.dp_replicate;
        config.parallel.schedule = named(layout.schedule);
        const Result result = train(config, layout.ranks, steps);
        EXPECT_EQ(result.losses, expected.losses);
        EXPECT_EQ(result.norms, expected.norms);
        EXPECT_TRUE(result.weights == expected.weights);  // and moments
      }
    }
  }
}

// Tensor-parallel layers round differently, but their matrices are still assembled. In 64 bits the
// results are otherwise equal.
TEST(WholeMatrices, OfSplitLayersAreTheSame) {
  for (const std::string family : {"llama", "gpt"}) {
    Config config = muon_config("fp64", family);
    config.model.num_kv_heads = 4;
    config.parallel.numerics = Numerics::fast;
    const Result expected = train(config, 1, steps);
    for (const auto& [ranks, tp, zero] :
         {std::tuple{2, 2, 0}, {4, 4, 0}, {4, 2, 1}, {8, 2, 3}, {8, 4, 2}}) {
      if (family == "gpt" && ranks == 8) continue;
      SCOPED_TRACE(fmt::format("{} {} ranks, tp {}, ZeRO {}", family, ranks, tp, zero));
      config.train.global_batch_size = batch * 12;
      config.parallel.tp = tp;
      config.parallel.zero = zero;
      const Result result = train(config, ranks, steps);
      for (int s = 0; s < steps; ++s)
        EXPECT_NEAR(result.losses[s], expected.losses[s], 1e-10) << "step " << s;
    }
  }
}

TEST(WholeMatrices, WorkWithNarrowGradients) {
  Config config = muon_config("bf16");
  config.parallel.numerics = Numerics::fast;
  const Result wide = train(config, 1, 20);
  config.run.gradient_dtype = config.optimizer.moment_dtype = StateType::bf16;
  for (const int ranks : {1, 4}) {
    config.parallel.zero = ranks > 1 ? 2 : 0;
    const Result narrow = train(config, ranks, 20);
    for (std::size_t s = 0; s < wide.losses.size(); ++s)
      EXPECT_NEAR(narrow.losses[s], wide.losses[s], 0.03 * wide.losses[s]) << "step " << s;
  }
}

// Only parameters other than the layers' matrices have second moments.
TEST(WholeMatrices, HaveOneMoment) {
  const Config config = muon_config("bf16");
  const Engine engine(config, build_options(config), {});
  std::int64_t matrices = 0, others = 0, first = 0, second = 0;
  for (const OwnedSlice& slice : engine.optimizer().layout().owned()) {
    const Parameter& p = engine.stage().definition().parameters[slice.parameter];
    const bool block_matrix = p.name.starts_with("layers.") && p.spec.shape.rank() == 2;
    (block_matrix ? matrices : others) += slice.count();
    EXPECT_EQ(engine.optimizer().moments(slice.parameter), block_matrix ? 1 : 2) << p.name;
  }
  for (const MemoryRegion& region : engine.memory().regions) {
    if (region.name == "first moments") first = region.bytes;
    if (region.name == "second moments") second = region.bytes;
  }
  EXPECT_GE(first, 4 * (matrices + others));
  EXPECT_GE(second, 4 * others);
  EXPECT_LE(second, first - 4 * matrices);
}

}  // namespace
}  // namespace trireme
