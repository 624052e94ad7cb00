// Ranks send as many bytes as the plan says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "comm/local.h"
#include "plan/layout_plan.h"
#include "plan/small_config.h"
#include "train/setup.h"

namespace trireme {
namespace {

// Sizes that divide: elsewhere some ranks send an element more than others, and a plan says the
// mean.
Config config_of(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"model.hidden_size=128", "model.seq_length=64"});
  return small(overrides);
}

// Bytes by group and what they are for.
class Counter : public OperationListener {
 public:
  void completed(const std::string& group, const Label& label, std::int64_t sent_bytes, Time,
                 Time) override {
    const std::lock_guard lock(mutex_);
    bytes_[group + ": " + label.what] += static_cast<double>(sent_bytes);
  }
  double of(const std::string& group) const {
    double sum = 0;
    for (const auto& [name, bytes] : bytes_)
      if (name.rfind(group + ": ", 0) == 0) sum += bytes;
    return sum;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, double> bytes_;
};

// The first rank of each pipeline position, which plans speak of.
std::map<int, Counter> sent(const Config& config, int ranks) {
  std::map<int, Counter> counters;
  for (int p = 0; p < static_cast<int>(config.parallel.pp); ++p) counters[p];
  run_local_ranks(ranks, {.timeout_s = 60}, [&](Transport& transport) {
    const int rank = transport.place().rank;
    Engine engine(config, build_options(config), {}, {rank, ranks});
    engine.allocate(&transport);
    engine.initialize();
    Batch batch(config.train.micro_batch_size, config.model.seq_length);
    std::fill(batch.tokens.begin(), batch.tokens.end(), 7);
    batch.targets = batch.tokens;
    StepInput input;
    input.micro_batches = config.train.global_batch_size /
                          (config.train.micro_batch_size * engine.mesh().degrees().dp());
    const int per_stage = ranks / static_cast<int>(config.parallel.pp);
    transport.world().barrier("begin").wait();
    if (rank % per_stage == 0) transport.set_listener(&counters.at(rank / per_stage));
    engine.train_step(input, [&](std::int64_t) { return &batch; });
    transport.set_listener(nullptr);
    transport.world().barrier("end").wait();
  });
  return counters;
}

struct Case {
  int ranks;
  std::vector<std::string> overrides;
};

class TrafficOfPlan : public testing::TestWithParam<Case> {};

TEST_P(TrafficOfPlan, IsWhatRanksSend) {
  const Config config = config_of(GetParam().overrides);
  const LayoutPlan plan = plan_layout(config, GetParam().ranks);
  const std::map<int, Counter> counters = sent(config, GetParam().ranks);
  for (const RankPlan& rank : plan.ranks) {
    SCOPED_TRACE("pipeline rank " + std::to_string(rank.pipeline_rank));
    const Counter& counter = counters.at(rank.pipeline_rank);
    EXPECT_DOUBLE_EQ(counter.of("tensor"), rank.traffic.tensor);
    EXPECT_DOUBLE_EQ(counter.of("pipeline"), rank.traffic.pipeline);
    EXPECT_DOUBLE_EQ(counter.of("shard") + counter.of("replicate") + counter.of("embedding"),
                     rank.traffic.gradients);
    EXPECT_DOUBLE_EQ(counter.of("gather"), rank.traffic.parameters);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, TrafficOfPlan,
    testing::Values(
        Case{2, {}}, Case{4, {"parallel.numerics=exact"}}, Case{4, {"parallel.zero=1"}},
        Case{4, {"parallel.zero=2", "parallel.dp_replicate=2"}}, Case{2, {"parallel.zero=3"}},
        Case{2, {"parallel.zero=3", "parallel.numerics=exact", "parallel.recompute=full"}},
        Case{2, {"parallel.tp=2"}}, Case{2, {"parallel.tp=2", "parallel.sequence_parallel=true"}},
        Case{2, {"parallel.pp=2"}}, Case{4, {"parallel.pp=4", "parallel.schedule=zb1p"}},
        Case{4, {"parallel.pp=2", "parallel.schedule=zbv", "parallel.zero=3"}},
        Case{4,
             {"parallel.pp=2", "parallel.schedule=interleaved", "parallel.virtual_stages=2",
              "parallel.zero=2", "model.tie_embeddings=false"}}),
    [](const auto& info) { return "Case" + std::to_string(info.index); });

}  // namespace
}  // namespace trireme
