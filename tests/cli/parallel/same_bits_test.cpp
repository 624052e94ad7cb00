// Tests that with exact numerics no layout changes a bit of metrics.jsonl and the last checkpoint.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>

#include "jobs.h"

namespace trireme::testing_cli {
namespace {

class SameBits : public Jobs {
 protected:
  void compare(const std::string& fixed, const std::vector<Layout>& layouts, int reference_ranks) {
    const std::string exact =
        compared_run + "parallel.numerics=exact train.hash_interval=4 " + fixed;
    ASSERT_EQ(train_on("reference", {reference_ranks, exact}).code, 0) << read("reference.out");
    ASSERT_EQ(losses("reference").size(), static_cast<std::size_t>(compared_steps));
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(layout.text() + " " + exact);
      const std::string dir = "job" + std::to_string(jobs_++);
      const Outcome outcome = train_on(dir, layout, exact);
      ASSERT_EQ(outcome.code, 0) << outcome.out;
      EXPECT_EQ(metrics(dir), metrics("reference"));
      EXPECT_EQ(first_difference(path(dir), path("reference")), "");
    }
    fs::remove_all(folder_ / "reference");
  }
};
class SlowSameBits : public SameBits {};
class LongSameBits : public SameBits {};

const std::vector<Layout> layouts = {
    {2, "train.micro_batch_size=1"},
    {4, "parallel.zero=1"},
    {8, "parallel.zero=2"},
    {4, "parallel.zero=3"},
    {4, "parallel.zero=2 parallel.dp_replicate=2"},
    {8, "parallel.zero=3 parallel.dp_replicate=4"},
    {4, "parallel.pp=4 parallel.schedule=gpipe"},
    {2, "parallel.pp=2 parallel.schedule=1f1b parallel.stage_layers=[3,5]"},
    {4, "parallel.pp=2 parallel.schedule=interleaved parallel.virtual_stages=2"},
    {4, "parallel.pp=4 parallel.schedule=zb1p"},
    {4, "parallel.pp=4 parallel.schedule=zbv parallel.recompute=selective"},
    {4, "parallel.pp=2 parallel.schedule=vhalf parallel.zero=2"},
    {8, "parallel.pp=4 parallel.schedule=zbv parallel.zero=3"},
    {8, "parallel.pp=2 parallel.schedule=zb1p parallel.zero=3 parallel.dp_replicate=2"},
};

const std::vector<Layout> layouts_of_cut_layers = {
    {4, ""},
    {4, "parallel.zero=3"},
    {8, "parallel.zero=2 parallel.dp_replicate=2"},
    {4, "parallel.pp=2 parallel.schedule=zbv"},
    {8, "parallel.pp=4 parallel.schedule=vhalf"},
    {8, "parallel.pp=2 parallel.schedule=zb1p parallel.zero=3"},
};

TEST_F(SameBits, RepresentativeLayouts) {
  compare("run.precision=bf16", {layouts[4], layouts[11]}, 1);
}

// Every rank reads its own share of the batch, from texts that are tokenized on the fly.
TEST_F(SameBits, TextsInsteadOfTokenFiles) {
  write("more.jsonl", "{\"text\": \"the wind turns.\"}\n{\"text\": \"a rower sees one oar.\"}\n");
  const std::string corpus = "\"" + path("corpus.txt") + "\"";
  compare("data.path=[] data.source_documents=paragraph data.valid_sources=[" + corpus +
              "] data.sources=[\"3\"," + corpus + ",\"1\",\"" + path("more.jsonl") + "\"]",
          {{2, ""}, {4, "parallel.pp=2"}}, 1);
}

// Sums over blocks of tokens do not depend on how many blocks a micro-batch has.
TEST_F(SameBits, BlocksOfTokensInMicroBatchesOfAnySize) {
  compare("run.precision=bf16 parallel.exact_block=8",
          {{1, "train.micro_batch_size=4"},
           {2, "train.micro_batch_size=2 parallel.zero=2 parallel.recompute=full"},
           {2, "train.micro_batch_size=2 parallel.pp=2 parallel.schedule=zbv"}},
          1);
}

// Ranks that share sequences, with either kind of attention, including packed documents.
TEST_F(SameBits, SharedSequences) {
  compare("run.precision=bf16 parallel.exact_block=4 data.reset_attention_mask=true",
          {{2, "parallel.cp=2 parallel.zero=1"},
           {4, "parallel.cp=2 parallel.cp_attention=ulysses parallel.pp=2"}},
          1);
}

TEST_F(SlowSameBits, SharedSequences) {
  const std::string more = "parallel.exact_block=2 ";
  compare(more +
              "model.family=llama model.qk_norm=true run.precision=fp16 optimizer.loss_scale=1024 "
              "model.attention_dropout=0.1",
          {{4, "parallel.cp=2 parallel.cp_attention=ulysses parallel.zero=3"},
           {8, "parallel.cp=4 parallel.pp=2 parallel.schedule=zbv parallel.zero=1"}},
          1);
  compare(more + "parallel.tp=2 parallel.sequence_parallel=true run.precision=bf16",
          {{4, "parallel.cp=2 parallel.recompute=full"}}, 2);
}

TEST_F(SlowSameBits, BlocksOfTokens) {
  const std::vector<Layout> of_blocks = {
      {1, "train.micro_batch_size=2"},
      {2, "train.micro_batch_size=4 parallel.zero=1"},
      {4, "train.micro_batch_size=2 parallel.zero=3"},
      {4, "train.micro_batch_size=2 parallel.zero=2 parallel.dp_replicate=2"},
      {4, "train.micro_batch_size=2 parallel.pp=4 parallel.schedule=zb1p parallel.recompute=full"},
      {4, "parallel.pp=2 parallel.schedule=vhalf parallel.zero=3"}};
  compare("parallel.exact_block=16", sample_of(of_blocks, 0), 1);
  compare("parallel.exact_block=4 model.family=llama run.precision=fp16 optimizer.loss_scale=1024",
          sample_of(of_blocks, 1), 1);
  compare("parallel.exact_block=4 parallel.tp=2 parallel.sequence_parallel=true run.precision=bf16",
          {{2, "train.micro_batch_size=4"}, {4, "train.micro_batch_size=2 parallel.zero=2"}}, 2);
}

// Operations that ranks may split have four leaves on any layout.
TEST_F(SlowSameBits, TensorParallelDegrees) {
  compare("run.precision=bf16 parallel.exact_block=4 parallel.exact_leaves=4",
          {{2, "parallel.tp=2"},
           {4, "parallel.tp=4 parallel.sequence_parallel=true"},
           {8, "parallel.tp=2 parallel.sequence_parallel=true parallel.pp=2 parallel.zero=2"}},
          1);
}

// Models of every kind of sum that leaves make.
const std::vector<std::string> models_of_leaves = {
    "model.family=gpt",
    "model.family=llama model.num_kv_heads=1 model.qk_norm=true",
    "model.family=llama model.num_kv_heads=2 model.attention_sinks=true model.attention_window=5",
    "model.family=llama moe.num_experts=8 moe.first_layer=1 moe.shared_ffn_hidden_size=32 "
    "moe.aux_loss_coeff=0.01 moe.ffn_hidden_size=32",
    "model.family=llama model.kv_lora_rank=8 model.q_lora_rank=12 model.qk_nope_head_dim=8 "
    "model.qk_rope_head_dim=4 moe.num_experts=4 moe.score=sigmoid moe.expert_bias=true",
    "model.family=llama optimizer.name=muon optimizer.muon_lr=0.02",
    "model.family=llama fp8.recipe=tensorwise",
    "model.family=llama model.mtp_layers=1 model.tie_embeddings=true"};
const std::vector<Layout> layouts_of_leaves = {
    {1, ""},
    {2, "parallel.zero=2"},
    {2, "parallel.tp=2 parallel.sequence_parallel=true"},
    {4, "parallel.tp=4 parallel.sequence_parallel=true"},
    {4, "parallel.tp=2 parallel.sequence_parallel=true parallel.pp=2 parallel.schedule=zb1p"},
    {4, "parallel.tp=2 parallel.sequence_parallel=true parallel.cp=2"},
    {4, "parallel.tp=2 parallel.sequence_parallel=true parallel.zero=3"}};

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

// Runs that stop on one tensor-parallel degree and resume on another. For another number of pairs:
// TRIREME_PAIRS=100 TRIREME_PAIRS_SEED=2.
class ResumedPairs : public SameBits {
 protected:
  void try_pairs(int pairs, int seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto one_of = [&](const auto& all) {
      return all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random)];
    };
    const auto degree = [](const Layout& layout) { return layout.settings.substr(0, 13); };
    std::map<std::string, std::string> whole;
    for (int i = 0; i < pairs; ++i) {
      const std::string exact = compared_run + "run.precision=" + one_of(precisions) +
                                " parallel.numerics=exact parallel.exact_block=4 " +
                                "parallel.exact_leaves=4 " + one_of(models_of_leaves);
      const auto [reference, added] = whole.try_emplace(exact, "whole" + std::to_string(i));
      if (added) {
        ASSERT_EQ(train_on(reference->second, {1, exact}).code, 0) << exact;
      }
      const Layout from = one_of(layouts_of_leaves);
      Layout to = from;
      while (degree(to) == degree(from)) to = one_of(layouts_of_leaves);
      SCOPED_TRACE(from.text() + ", then " + to.text() + " " + exact);
      ASSERT_EQ(train_on("parts", from, exact + " train.exit_interval=6").code, 0)
          << read("parts.out");
      ASSERT_EQ(train_on("parts", to, exact).code, 0) << read("parts.out");
      EXPECT_EQ(metrics("parts"), metrics(reference->second));
      EXPECT_EQ(first_difference(path("parts"), path(reference->second)), "");
      fs::remove_all(folder_ / "parts");
    }
    std::printf("%d pairs of %d runs\n", pairs, static_cast<int>(whole.size()));
  }

 private:
  static inline const std::vector<std::string> precisions = {"bf16", "fp32"};
};
class SlowResumedPairs : public ResumedPairs {};
class LongResumedPairs : public ResumedPairs {};

TEST_F(SlowResumedPairs, OfAnotherTensorParallelDegreeAreOneRun) {
  try_pairs(2, 3);
}
TEST_F(LongResumedPairs, OfAnotherTensorParallelDegreeAreOneRun) {
  try_pairs(from_environment("TRIREME_PAIRS", 100), from_environment("TRIREME_PAIRS_SEED", 1));
}

// Two micro-batches on four stages; slots and messages are planned for just two.
TEST_F(SameBits, FewerMicroBatchesThanStages) {
  compare("train.micro_batch_size=2 train.global_batch_size=4",
          {{4, "parallel.pp=4 parallel.schedule=1f1b"},
           {4, "parallel.pp=4 parallel.schedule=zbv parallel.zero=1"}},
          1);
}

TEST_F(SlowSameBits, FewerMicroBatchesThanStagesOfAnySchedule) {
  compare("train.micro_batch_size=2 train.global_batch_size=4",
          {{4, "parallel.pp=4 parallel.schedule=gpipe"},
           {4, "parallel.pp=4 parallel.schedule=interleaved parallel.virtual_stages=2"},
           {4, "parallel.pp=4 parallel.schedule=zb1p"},
           {4, "parallel.pp=4 parallel.schedule=vhalf"},
           {8, "parallel.pp=4 parallel.schedule=1f1b parallel.zero=3"}},
          1);
}

TEST_F(SlowSameBits, Fp32) {
  compare("", sample_of(layouts, 0), 1);
}
TEST_F(SlowSameBits, Bf16) {
  compare("run.precision=bf16", sample_of(layouts, 1), 1);
}
TEST_F(SlowSameBits, LlamaBf16WithAHeadOfItsOwn) {
  compare("run.precision=bf16 model.family=llama", sample_of(layouts, 2), 1);
}
const std::string experts =
    "model.family=llama moe.num_experts=8 moe.first_layer=1 moe.shared_ffn_hidden_size=32 "
    "moe.aux_loss_coeff=0.01 moe.z_loss_coeff=0.001 ";
TEST_F(SameBits, Experts) {
  compare(experts + "run.precision=bf16",
          {layouts[4], layouts[10], {4, "parallel.ep=2 parallel.zero=2 parallel.recompute=full"}},
          1);
}
// Ranks with parts of the same sequences; and with parts of the same layers.
TEST_F(SlowSameBits, ExpertsOfSharedSequencesAndLayers) {
  const std::string more = experts + "run.precision=bf16 parallel.exact_block=4 ";
  compare(more,
          {{8, "parallel.cp=2 parallel.ep=2 parallel.pp=2 parallel.schedule=zb1p parallel.zero=2"},
           {4, "parallel.cp=2 parallel.ep=4 parallel.zero=1 train.micro_batch_size=2"},
           {4, "parallel.cp=2 parallel.cp_attention=ulysses parallel.recompute=full"}},
          1);
  compare(more + "parallel.tp=2 parallel.sequence_parallel=true",
          {{4, "parallel.cp=2 parallel.ep=4 parallel.zero=3"}, {4, "parallel.ep=2"}}, 2);
}
TEST_F(SlowSameBits, ExpertsOfEveryRank) {
  compare(experts, sample_of(layouts, 1), 1);
}
TEST_F(SlowSameBits, ExpertsThatAreDealtOut) {
  std::vector<Layout> dealt = {{4, "parallel.ep=4"}, {4, "parallel.ep=4 parallel.zero=1"}};
  for (const Layout& layout : sample_of(layouts, 0)) {
    const auto has = [&](const char* text) {
      return layout.settings.find(text) != std::string::npos;
    };
    const int stages = has("pp=4") ? 4 : has("pp=2") ? 2 : 1;
    if (layout.ranks > stages) dealt.push_back({layout.ranks, layout.settings + " parallel.ep=2"});
  }
  compare(experts + "run.precision=bf16", dealt, 1);
}
TEST_F(SlowSameBits, ExpertsThatDrop) {
  compare(experts + "run.precision=bf16 moe.capacity_factor=1.0 moe.score=sigmoid",
          {layouts[1], layouts[8], layouts[12]}, 1);
}
TEST_F(SlowSameBits, CutLayersFp32) {
  compare("parallel.tp=2", sample_of(layouts_of_cut_layers, 0), 2);
}
TEST_F(SlowSameBits, CutSequencesBf16) {
  compare("run.precision=bf16 parallel.tp=2 parallel.sequence_parallel=true",
          sample_of(layouts_of_cut_layers, 1), 2);
}

TEST_F(SlowSameBits, DataRanksAgainstAccumulation) {
  compare("train.micro_batch_size=2 train.global_batch_size=16",
          {{2, ""}, {4, ""}, {8, ""}, {8, "parallel.zero=1 parallel.dp_replicate=2"}}, 1);
}

// Messages between stages grow with the sequences.
TEST_F(SlowSameBits, WhileSequencesGrow) {
  compare(
      "curriculum.schedule=fixed_linear curriculum.min_length=4 curriculum.length_step=4 "
      "curriculum.iters=8",
      {{2, "parallel.pp=2"},
       {4, "parallel.pp=4 parallel.schedule=zbv"},
       {4, "parallel.pp=2 parallel.schedule=vhalf parallel.zero=3"},
       {4, "parallel.pp=4 parallel.schedule=interleaved parallel.virtual_stages=2"}},
      1);
}

// Steps of 2, 4, ... 20 micro-batches on four stages: each count has its own schedule.
TEST_F(SlowSameBits, WhileTheBatchGrows) {
  const std::string ramp =
      "train.iters=0 train.samples=350 train.rampup_batch_size=[2,2,200] "
      "train.global_batch_size=20 optimizer.warmup_iters=0 parallel.numerics=exact";
  ASSERT_EQ(train_on("reference", {1, ramp}).code, 0) << read("reference.out");
  for (const std::string schedule :
       {"gpipe", "1f1b", "interleaved parallel.virtual_stages=2", "zb1p", "zbv", "vhalf"}) {
    const Layout layout{4, "parallel.pp=4 parallel.schedule=" + schedule};
    const Outcome outcome = train_on("run", layout, ramp);
    ASSERT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_EQ(metrics("run"), metrics("reference")) << layout.text();
    fs::remove_all(folder_ / "run");
  }
}

}  // namespace
}  // namespace trireme::testing_cli
