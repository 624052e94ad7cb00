// Tests that ranks do what the plan says: equal numbers of kernel calls, bytes sent and bytes
// mapped, counted independently of the recorder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "comm/local.h"
#include "plan/counting_device.h"
#include "plan/layout_plan.h"
#include "plan/small_config.h"
#include "runtime/devices.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

// Sizes are divisible: otherwise some ranks send one element more than others, and a plan gives the
// mean.
Config config_of(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"model.hidden_size=128", "model.seq_length=64"});
  return small(overrides);
}

// Counts bytes by group and purpose.
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

// What the first rank of each pipeline position did in a step: plans describe these ranks.
struct Done {
  Counter sent;
  testing_plan::Counts kernels;
  std::int64_t mapped = 0;
};

// Counts file transfers under the names that a record uses.
void count_transfers(const Trace& trace, testing_plan::Counts& counts) {
  const std::string events = trace.json();
  for (const auto& [event, name] : {std::pair{"\"read states", "states from the file"},
                                    {"\"write states", "states to the file"},
                                    {"\"read parameters", "parameters from the file"},
                                    {"\"write parameters", "parameters to the file"},
                                    {"\"read activations", "activations from the file"},
                                    {"\"write activations", "activations to the file"}}) {
    for (std::size_t at = 0; (at = events.find(event, at)) != std::string::npos; ++at)
      ++counts[name];
  }
}

std::map<int, Done> run_step(const Config& config, int ranks) {
  std::map<int, Done> counters;
  for (int p = 0; p < static_cast<int>(config.parallel.pp); ++p) counters[p];
  run_local_ranks(ranks, {.timeout_s = 60}, [&](Transport& transport) {
    const int rank = transport.place().rank;
    testing_plan::CountingDevice device;
    Engine engine(config, build_options(config), {.device = &device}, {rank, ranks});
    engine.allocate(&transport);
    const std::int64_t mapped = device.mapped();
    engine.initialize();
    Batch batch(config.train.micro_batch_size, config.model.seq_length);
    std::fill(batch.tokens.begin(), batch.tokens.end(), 7);
    batch.targets = batch.tokens;
    const std::int64_t predictions = build_options(config).predictions;
    for (std::size_t r = 0; predictions > 0 && r < batch.loss_weights.size(); ++r)
      batch.loss_weights[r] =
          static_cast<std::int64_t>(r) % config.model.seq_length < predictions ? 1.f : 0.f;
    StepInput input;
    input.micro_batches = config.train.global_batch_size /
                          (config.train.micro_batch_size * engine.mesh().degrees().dp());
    const int per_stage = ranks / static_cast<int>(config.parallel.pp);
    transport.world().barrier("begin").wait();
    const bool looks = rank % per_stage == 0;
    if (looks) transport.set_listener(&counters.at(rank / per_stage).sent);
    device.counts().clear();
    Trace trace(rank);
    engine.set_trace(&trace);
    engine.train_step(input, [&](std::int64_t) { return &batch; });
    engine.set_trace(nullptr);
    count_transfers(trace, device.counts());
    transport.set_listener(nullptr);
    transport.world().barrier("end").wait();
    if (!looks) return;
    counters.at(rank / per_stage).kernels = device.counts();
    counters.at(rank / per_stage).mapped = mapped;
  });
  return counters;
}

struct Case {
  int ranks;
  std::vector<std::string> overrides;
};

testing_plan::Counts counted(const Record& record) {
  testing_plan::Counts counts;
  record.for_each([&](const RecordedWork& work, std::int64_t times) {
    if (work.kind != RecordedWork::Kind::message) counts[work.name] += times;
  });
  return counts;
}

std::int64_t allocated(const MemoryPlan& memory) {
  std::int64_t sum = 0;
  for (const MemoryRegion& region : memory.regions)
    if (region.name != "copy for checkpoints") sum += region.bytes;
  return sum;
}

class RecordOfPlan : public testing::TestWithParam<Case> {};

TEST_P(RecordOfPlan, IsWhatRanksDo) {
  const Config config = config_of(GetParam().overrides);
  const LayoutPlan plan = plan_layout(config, GetParam().ranks);
  const std::map<int, Done> done = run_step(config, GetParam().ranks);
  for (const RankPlan& rank : plan.ranks) {
    SCOPED_TRACE("pipeline rank " + std::to_string(rank.pipeline_rank));
    const Done& real = done.at(rank.pipeline_rank);
    EXPECT_EQ(counted(rank.program), real.kernels);
    EXPECT_EQ(allocated(rank.memory), real.mapped);
    EXPECT_DOUBLE_EQ(real.sent.of("tensor"), rank.traffic.tensor);
    EXPECT_DOUBLE_EQ(real.sent.of("context"), rank.traffic.context);
    EXPECT_DOUBLE_EQ(real.sent.of("expert"), rank.traffic.experts);
    EXPECT_DOUBLE_EQ(real.sent.of("pipeline"), rank.traffic.pipeline);
    EXPECT_DOUBLE_EQ(real.sent.of("shard") + real.sent.of("replicate") +
                         real.sent.of("shared heads") + real.sent.of("expert shard") +
                         real.sent.of("expert replicate") + real.sent.of("embedding"),
                     rank.traffic.gradients);
    EXPECT_DOUBLE_EQ(real.sent.of("gather") + real.sent.of("expert gather"),
                     rank.traffic.parameters);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, RecordOfPlan,
    testing::Values(
        Case{1, {}}, Case{1, {"model.family=llama", "run.precision=bf16"}},
        Case{1, {"parallel.recompute=full", "model.hidden_dropout=0.1"}},
        Case{1, {"run.precision=bf16", "run.gradient_dtype=bf16", "optimizer.moment_dtype=bf16"}},
        Case{1, {"optimizer.name=sgd", "run.precision=fp64"}}, Case{1, {"optimizer.name=lion"}},
        Case{2, {"offload.optimizer=file", "offload.path=/tmp", "parallel.zero=1"}},
        Case{1,
             {"offload.optimizer=file", "offload.path=/tmp", "optimizer.name=muon",
              "run.precision=bf16", "optimizer.moment_dtype=bf16"}},
        Case{1,
             {"offload.activations=file", "offload.path=/tmp", "train.global_batch_size=4",
              "model.num_layers=5"}},
        Case{4,
             {"offload.activations=file", "offload.path=/tmp", "offload.activation_layers=1",
              "parallel.pp=2", "parallel.recompute=selective"}},
        Case{2,
             {"offload.activations=file", "offload.path=/tmp", "parallel.pp=2",
              "parallel.schedule=zb1p"}},
        Case{4,
             {"parallel.distribute_saved_activations=true", "parallel.recompute=full",
              "parallel.tp=2", "parallel.pp=2"}},
        Case{2,
             {"parallel.distribute_saved_activations=true", "parallel.recompute=full",
              "parallel.recompute_layers=1", "parallel.tp=2"}},
        Case{2, {"optimizer.name=muon", "parallel.zero=2", "parallel.numerics=exact"}},
        Case{4, {"optimizer.name=muon", "parallel.tp=2", "parallel.zero=1"}},
        Case{4,
             {"optimizer.name=muon", "parallel.pp=2", "parallel.zero=3", "run.precision=bf16",
              "run.gradient_dtype=bf16", "optimizer.moment_dtype=bf16", "model.family=llama"}},
        Case{
            4,
            {"model.family=llama", "model.num_kv_heads=2", "parallel.tp=4", "optimizer.name=muon"}},
        Case{4,
             {"model.family=llama", "model.num_kv_heads=1", "parallel.tp=2", "parallel.zero=2",
              "parallel.numerics=exact"}},
        Case{1, {"run.precision=fp16", "parallel.numerics=exact"}}, Case{2, {}},
        Case{4, {"parallel.numerics=exact"}}, Case{4, {"parallel.zero=1"}},
        Case{2, {"parallel.zero=2", "run.precision=bf16", "run.gradient_dtype=bf16"}},
        Case{4, {"parallel.zero=2", "parallel.dp_replicate=2"}}, Case{2, {"parallel.zero=3"}},
        Case{2, {"parallel.zero=3", "parallel.numerics=exact", "parallel.recompute=full"}},
        Case{2, {"model.family=bert", "parallel.tp=2", "parallel.sequence_parallel=true"}},
        Case{2,
             {"model.position=alibi", "model.embedding_norm=true", "model.scale_embedding=true",
              "parallel.cp=2", "parallel.cp_attention=ulysses"}},
        Case{2, {"parallel.tp=2"}}, Case{2, {"parallel.tp=2", "parallel.sequence_parallel=true"}},
        Case{2, {"parallel.pp=2"}}, Case{4, {"parallel.pp=4", "parallel.schedule=zb1p"}},
        Case{4, {"parallel.pp=2", "parallel.schedule=zbv", "parallel.zero=3"}},
        Case{4, {"parallel.pp=2", "parallel.tp=2", "parallel.recompute=selective"}},
        Case{2, {"parallel.pp=2", "parallel.schedule=gpipe"}}, Case{1, {"model.family=bert"}},
        Case{8,
             {"parallel.pp=2", "parallel.schedule=interleaved", "parallel.virtual_stages=2",
              "parallel.zero=2", "parallel.dp_replicate=2"}},
        Case{4, {"parallel.pp=2", "parallel.schedule=vhalf", "parallel.zero=1"}},
        Case{4, {"parallel.cp=2", "parallel.zero=1", "model.seq_length=32"}},
        Case{4,
             {"parallel.cp=4", "parallel.cp_attention=ulysses", "model.seq_length=32",
              "run.precision=bf16", "parallel.recompute=selective"}},
        Case{8,
             {"parallel.cp=2", "parallel.tp=2", "parallel.sequence_parallel=true",
              "model.seq_length=32", "parallel.pp=2", "parallel.schedule=zb1p"}},
        Case{4,
             {"model.family=llama", "moe.num_experts=4", "moe.top_k=4", "parallel.ep=4",
              "parallel.zero=3"}},
        Case{4,
             {"model.family=llama", "moe.num_experts=4", "moe.top_k=4", "parallel.ep=2",
              "parallel.zero=2", "parallel.dp_replicate=2"}},
        Case{4,
             {"model.family=llama", "moe.num_experts=4", "moe.top_k=4", "parallel.ep=2",
              "parallel.expert_tp=2", "run.precision=bf16", "parallel.zero=1"}},
        Case{1, {"model.family=llama", "moe.num_experts=4", "moe.aux_loss_coeff=0.01"}},
        Case{2,
             {"model.family=llama", "moe.num_experts=4", "moe.top_k=4", "moe.aux_loss_coeff=0.01",
              "parallel.cp=2", "parallel.cp_attention=ring", "parallel.ep=2", "parallel.zero=1",
              "model.seq_length=32"}},
        Case{4,
             {"model.family=llama", "moe.num_experts=4", "moe.top_k=4", "moe.aux_loss_coeff=0.01",
              "parallel.tp=2", "parallel.sequence_parallel=true", "parallel.cp=2", "parallel.ep=4",
              "parallel.numerics=exact", "parallel.exact_block=8", "model.seq_length=32"}},
        Case{4,
             {"model.family=llama", "moe.num_experts=4", "moe.capacity_factor=1.5",
              "run.precision=bf16", "parallel.pp=2", "parallel.schedule=zbv", "parallel.zero=3"}},
        Case{4,
             {"parallel.pp=2", "parallel.schedule=interleaved", "parallel.virtual_stages=2",
              "parallel.zero=2", "model.tie_embeddings=false"}},
        Case{2,
             {"offload.parameters=file", "offload.path=/tmp", "parallel.zero=3",
              "run.precision=bf16", "train.global_batch_size=8"}},
        Case{1,
             {"offload.parameters=file", "offload.optimizer=file", "offload.path=/tmp",
              "parallel.zero=3"}},
        Case{4,
             {"offload.parameters=file", "offload.optimizer=file", "offload.activations=file",
              "offload.path=/tmp", "parallel.zero=3", "run.precision=bf16", "parallel.pp=2",
              "parallel.schedule=zbv", "train.global_batch_size=8"}}),
    [](const auto& info) { return "Case" + std::to_string(info.index); });

// Ranks compare their plans before they train.
TEST(MemoryOfRanks, IsTheSameWhereStatesAreShared) {
  for (const std::string zero : {"0", "1", "2", "3"}) {
    const Config config =
        config_of({"parallel.tp=2", "parallel.sequence_parallel=true", "parallel.zero=" + zero});
    const auto memory_of = [&](int rank) {
      return to_text(Engine(config, build_options(config), {}, {rank, 4}).memory());
    };
    EXPECT_EQ(memory_of(0), memory_of(2)) << "zero " << zero;
    EXPECT_EQ(memory_of(1), memory_of(3)) << "zero " << zero;
  }
}

// The record keeps the position of each operation in the step.
TEST(Record, KeepsTheOrderOfAStep) {
  const LayoutPlan plan = plan_layout(config_of({"train.global_batch_size=4"}), 1);
  std::vector<int> passes;
  std::vector<int> segments;
  for (const RecordedWork& work : plan.ranks[0].program.rest().work) {
    if (work.kind != RecordedWork::Kind::piece) continue;
    passes.push_back(work.key.pass);
    segments.push_back(work.key.segment);
  }
  const std::vector<int> along = {0, 1, 2, 3, 4, 5}, back = {5, 4, 3, 2, 1, 0};
  ASSERT_EQ(segments.size(), 24u);  // two micro-batches, forward and back
  for (int part = 0; part < 4; ++part) {
    const auto begin = segments.begin() + part * 6;
    EXPECT_EQ(std::vector<int>(begin, begin + 6), part % 2 ? back : along);
    EXPECT_EQ(passes[static_cast<std::size_t>(part) * 6], part % 2);
  }
}

// A long step is recorded more than once: it waits for operations that it started itself.
TEST(Record, OfALongStepWaitsForItsOwnCopies) {
  for (const char* schedule : {"1f1b", "zbv"}) {
    const LayoutPlan plan = plan_layout(
        config_of({"run.device=cuda", "parallel.pp=2", std::string("parallel.schedule=") + schedule,
                   "parallel.zero=3", "offload.optimizer=host", "offload.activations=host",
                   "offload.parameters=host", "train.global_batch_size=1200"}),
        4, target_of(DeviceKind::cuda));
    ASSERT_GT(plan.schedule.more_turns, 2) << schedule;
    for (const RankPlan& rank : plan.ranks) {
      std::set<std::int32_t> begun;
      for (const RecordedWork& work : rank.program.rest().work) {
        if (work.kind == RecordedWork::Kind::wait)
          EXPECT_TRUE(begun.contains(work.operation)) << work.operation;
        else if (work.operation >= 0)
          begun.insert(work.operation);
      }
      EXPECT_GT(begun.size(), 0u);
    }
  }
}

// Repetitions of a long schedule are counted, not walked: the result must be the same.
TEST(Record, OfALongStepIsThatOfItsTurns) {
  for (const std::string schedule : {"1f1b", "interleaved", "zb1p", "zbv"}) {
    std::vector<std::string> overrides = {
        "parallel.pp=2",           "parallel.schedule=" + schedule,
        "parallel.zero=3",         "offload.activations=file",
        "offload.parameters=file", "run.precision=bf16",
        "offload.path=/tmp"};
    if (schedule == "interleaved") overrides.push_back("parallel.virtual_stages=2");
    const auto traffic_of = [&](int samples) {
      overrides.push_back("train.global_batch_size=" + std::to_string(samples));
      return plan_layout(config_of(overrides), 4);
    };
    const LayoutPlan a = traffic_of(1200), b = traffic_of(1208), c = traffic_of(1216);
    ASSERT_GT(a.schedule.more_turns, 2) << schedule;
    for (std::size_t p = 0; p < a.ranks.size(); ++p) {
      const auto grows = [&](auto&& value) {
        EXPECT_DOUBLE_EQ(value(c.ranks[p]) - value(b.ranks[p]),
                         value(b.ranks[p]) - value(a.ranks[p]));
        EXPECT_GE(value(b.ranks[p]), value(a.ranks[p]));
      };
      EXPECT_GT(b.ranks[p].flops, a.ranks[p].flops);
      EXPECT_DOUBLE_EQ(b.ranks[p].traffic.pipeline / static_cast<double>(b.even.ranks[p].sends),
                       a.ranks[p].traffic.pipeline / static_cast<double>(a.even.ranks[p].sends));
      grows([](const RankPlan& rank) { return rank.flops; });
      grows([](const RankPlan& rank) { return rank.traffic.pipeline; });
      grows([](const RankPlan& rank) { return rank.traffic.gradients; });
      grows([](const RankPlan& rank) { return rank.traffic.parameters; });
      grows([](const RankPlan& rank) { return rank.files.read; });
      grows([](const RankPlan& rank) { return rank.files.written; });
      EXPECT_GT(a.ranks[p].files.written, 0);
    }
  }
}

}  // namespace
}  // namespace trireme
