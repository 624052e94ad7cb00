// Tests of context parallelism: ranks that share sequences compute what one rank computes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "named.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

struct Shared {
  int ranks, cp;
  const char* attention;
  void (*change)(Config&);
  const char* with;
};

std::string shared_layout_name(const testing::TestParamInfo<Shared>& info) {
  const Shared& shared = info.param;
  return fmt::format("{}_cp{}_{}", shared.attention, shared.cp, shared.with);
}

void alone(Config&) {}
void pipeline(Config& c) {
  c.parallel.pp = 2;
  c.parallel.schedule = ScheduleKind::zbv;
  c.parallel.zero = 1;
}
void tensors(Config& c) {
  c.parallel.tp = 2;
  c.parallel.sequence_parallel = true;
  c.parallel.recompute = Recompute::selective;
}
void shards(Config& c) {
  c.parallel.zero = 3;
  c.parallel.recompute = Recompute::full;
}

class SharedSequences : public testing::TestWithParam<Shared> {};

TEST_P(SharedSequences, ComputeWhatOneRankComputes) {
  for (const std::string model : {"gpt", "llama", "window", "slopes", "latent"}) {
    SCOPED_TRACE(model);
    const bool plain = model == "gpt" || model == "slopes";
    const std::string family = plain ? "gpt" : model == "latent" ? "latent" : "llama";
    Config config = config_of("fp64", 4, family);
    if (family == "llama") config.model.num_kv_heads = 2;
    if (model == "slopes") {
      config.model.position = PositionEncoding::alibi;
      config.model.embedding_norm = true;
    }
    if (model == "window") config.model.attention_window = 5;
    // With attention dropout, a ring needs chunks of a multiple of eight positions.
    config.model.attention_dropout = GetParam().attention == std::string("ring") ? 0 : 0.1;
    config.parallel.numerics = Numerics::fast;
    // Adam would divide by gradients that are pure rounding noise: those of the key biases.
    config.optimizer.name = OptimizerKind::sgd;
    const Result expected = train(config, 1);
    config.parallel.cp = GetParam().cp;
    config.parallel.cp_attention = named(GetParam().attention);
    GetParam().change(config);
    validate_layout(config, GetParam().ranks);
    const Result result = train(config, GetParam().ranks);
    expect_near(result, expected, 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, SharedSequences,
                         testing::Values(Shared{2, 2, "all_gather", alone, "alone"},
                                         Shared{4, 4, "all_gather", shards, "shards"},
                                         Shared{4, 2, "all_gather", pipeline, "pipeline"},
                                         Shared{4, 2, "all_gather", tensors, "tensors"},
                                         Shared{2, 2, "ulysses", alone, "alone"},
                                         Shared{4, 2, "ulysses", shards, "shards"},
                                         Shared{4, 2, "ulysses", pipeline, "pipeline"},
                                         Shared{2, 2, "ring", alone, "alone"},
                                         Shared{4, 4, "ring", shards, "shards"},
                                         Shared{4, 2, "ring", pipeline, "pipeline"},
                                         Shared{4, 2, "ring", tensors, "tensors"}),
                         shared_layout_name);

}  // namespace
}  // namespace trireme
