// Tests of jobs of several ranks, each with an emulated GPU.
#include <cstdlib>

#include "faults.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

// Sets an environment variable for the jobs that a test starts.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

class EmulatedJobs : public Faults {
 protected:
  // No send completes before its receive has started, as between GPUs.
  const Variable synchronous_{"TRIREME_SYNCHRONOUS_SENDS", "1"};

  static constexpr const char* small =
      "run.device=emulated model.num_layers=4 train.iters=4 train.eval_interval=4 "
      "train.global_batch_size=4 checkpoint.interval=4 ";

  static constexpr const char* two_steps =
      "train.iters=2 train.eval_interval=2 checkpoint.interval=2 optimizer.warmup_iters=1 ";

  // Chunks, norms without weights, queries that grow with their position, scaled inputs of experts.
  static constexpr const char* llama4 =
      "model.attention_window=5 model.window_layers=[0,1,2] model.window_chunks=true "
      "model.qk_l2_norm=true model.no_rope_layers=[3] model.no_rope_query_beta=0.5 "
      "model.no_rope_query_length=3 moe.num_experts=4 moe.top_k=1 moe.score=sigmoid "
      "moe.normalize_weights=false moe.scale_inputs=true moe.shared_ffn_hidden_size=32 ";

  void expect_same_bits(const std::vector<Layout>& layouts, const std::string& more) {
    const std::string settings = small + more;
    ASSERT_EQ(train_on("reference", {1, settings}).code, 0) << read("reference.out");
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(layout.text());
      const std::string dir = "job" + std::to_string(jobs_++);
      const Outcome outcome = train_on(dir, layout, settings);
      ASSERT_EQ(outcome.code, 0) << outcome.out;
      EXPECT_EQ(metrics(dir), metrics("reference"));
      EXPECT_EQ(first_difference(path(dir), path("reference")), "");
    }
  }

  // Any tensor-parallel degree, where a library would have products of its own.
  void expect_same_leaves(const std::vector<Layout>& layouts, const std::string& more) {
    const Variable library("TRIREME_EMULATED_LIBRARY", "1.0");
    fs::remove_all(folder_ / "reference");  // of the test's model before
    expect_same_bits(layouts,
                     two_steps + ("parallel.numerics=exact parallel.exact_block=4 " + more));
  }
};
class SlowEmulatedJobs : public EmulatedJobs {};

TEST_F(EmulatedJobs, ExactLayoutsGiveTheSameBits) {
  expect_same_bits({{2, "parallel.zero=3"}, {2, "parallel.pp=2 parallel.schedule=zbv"}},
                   "parallel.numerics=exact run.precision=bf16");
}

// Experts on every rank, and distributed; all matrices of Muon.
TEST_F(EmulatedJobs, LayoutsOfExpertsGiveTheSameBits) {
  expect_same_bits({{2, "parallel.zero=3"}, {4, "parallel.ep=2 parallel.pp=2 parallel.zero=1"}},
                   "parallel.numerics=exact run.precision=bf16 model.family=llama "
                   "moe.num_experts=4 moe.first_layer=1 moe.shared_ffn_hidden_size=32 "
                   "moe.aux_loss_coeff=0.01 moe.z_loss_coeff=0.001 optimizer.name=muon");
}

// Latent heads (MLA), residual experts, and load balancing over the global batch.
TEST_F(SlowEmulatedJobs, LayoutsOfLatentHeadsGiveTheSameBits) {
  expect_same_bits({{2, "parallel.zero=3"}, {2, "parallel.ep=2 parallel.zero=1"}},
                   "parallel.numerics=exact run.precision=bf16 model.family=llama "
                   "model.kv_lora_rank=16 model.qk_nope_head_dim=8 model.qk_rope_head_dim=4 "
                   "model.v_head_dim=8 moe.num_experts=4 moe.shared_ffn_hidden_size=32 "
                   "moe.residual=true moe.aux_loss=global moe.aux_loss_coeff=0.01");
}

// Ranks that share sequences, with either kind of context-parallel attention, and experts.
TEST_F(EmulatedJobs, SharedSequencesGiveTheSameBits) {
  const std::string more = "parallel.numerics=exact parallel.exact_block=4 run.precision=bf16 ";
  expect_same_bits(
      {{2, "parallel.cp=2"}, {2, "parallel.cp=2 parallel.cp_attention=ulysses parallel.zero=1"}},
      more + "model.attention_dropout=0.1 data.reset_attention_mask=true");
}
TEST_F(SlowEmulatedJobs, SharedSequencesWithCapsGiveTheSameBits) {
  expect_same_bits(
      {{2, "parallel.cp=2"}, {2, "parallel.cp=2 parallel.cp_attention=ulysses parallel.zero=1"}},
      "parallel.numerics=exact parallel.exact_block=4 run.precision=bf16 "
      "model.attention_dropout=0.1 model.attention_soft_cap=0.5");
}
TEST_F(SlowEmulatedJobs, SharedSequencesInChunksGiveTheSameBits) {
  expect_same_bits({{2, "parallel.cp=2"}, {4, "parallel.cp=2 parallel.ep=2 parallel.zero=1"}},
                   std::string(two_steps) +
                       "parallel.numerics=exact parallel.exact_block=4 run.precision=bf16 "
                       "model.family=llama " +
                       llama4);
}
TEST_F(SlowEmulatedJobs, SharedSequencesOfExpertsGiveTheSameBits) {
  expect_same_bits({{4, "parallel.cp=2 parallel.ep=2 parallel.zero=1"}},
                   "parallel.numerics=exact parallel.exact_block=4 run.precision=bf16 "
                   "model.family=llama moe.num_experts=4 moe.aux_loss_coeff=0.01");
}

// Offloads states, activations and parameters to the memory of each GPU's host.
TEST_F(EmulatedJobs, WhatIsOffloadedGivesTheSameBits) {
  const std::string both = " offload.optimizer=host offload.activations=host";
  expect_same_bits(
      {{2, "parallel.zero=1" + both}, {2, "parallel.zero=3 offload.parameters=host" + both}},
      "parallel.numerics=exact run.precision=bf16");
}
TEST_F(SlowEmulatedJobs, WhatIsOffloadedGivesTheSameBits) {
  const std::string all =
      " offload.optimizer=host offload.activations=host offload.parameters=host parallel.zero=3";
  expect_same_bits({{2, "parallel.zero=2 offload.optimizer=host"},
                    {2, "parallel.pp=2 parallel.schedule=zb1p" + all},
                    {4, "parallel.pp=2 parallel.schedule=zbv" + all}},
                   "parallel.numerics=exact run.precision=bf16 optimizer.name=muon "
                   "parallel.recompute=selective");
}
TEST_F(SlowEmulatedJobs, OffloadedBiasesOfRoutersGiveTheSameBits) {
  expect_same_bits({{2, "parallel.zero=3 offload.optimizer=host"}},
                   "parallel.numerics=exact run.precision=bf16 model.family=llama "
                   "moe.num_experts=4 moe.score=sigmoid moe.expert_bias=true");
}
TEST_F(SlowEmulatedJobs, WhatIsOffloadedKnowsNoOrderOfTheQueues) {
  const Variable order("TRIREME_STREAM_ORDER", "7");
  expect_same_bits({{2,
                     "parallel.zero=3 offload.optimizer=host offload.activations=host "
                     "offload.parameters=host"}},
                   "parallel.numerics=exact run.precision=bf16");
}

// Ranks that share a sequence agree on its scale through the device's collectives.
TEST_F(SlowEmulatedJobs, LayoutsInFp8GiveTheSameBits) {
  expect_same_bits({{2, "parallel.cp=2 parallel.zero=1"}, {2, "parallel.ep=2"}},
                   "parallel.numerics=exact parallel.exact_block=4 run.precision=bf16 "
                   "model.family=llama moe.num_experts=4 fp8.recipe=tensorwise "
                   "fp8.power_of_2_scales=true");
}

// 8-bit GEMMs of a library, one per block of exact numerics.
TEST_F(SlowEmulatedJobs, LayoutsOfBytesGiveTheSameBits) {
  const Variable library("TRIREME_EMULATED_LIBRARY", "1.0");
  expect_same_bits({{2, "parallel.cp=2 parallel.zero=1"}, {2, "parallel.zero=3"}},
                   "parallel.numerics=exact parallel.exact_block=16 run.precision=bf16 "
                   "model.seq_length=64 fp8.recipe=tensorwise fp8.format=hybrid");
  EXPECT_THAT(read("reference/tuning.json"), HasSubstr("\"rows\":16,"));
  EXPECT_THAT(read("reference/tuning.json"),
              HasSubstr("\"scales\":\"tensorwise\",\"algorithm\":\"first\""));
}

TEST_F(EmulatedJobs, TensorParallelDegreesGiveTheSameBits) {
  expect_same_leaves({{2, "parallel.tp=2"}, {4, "parallel.tp=4 parallel.sequence_parallel=true"}},
                     "parallel.exact_leaves=4 run.precision=bf16");
}
TEST_F(SlowEmulatedJobs, EightTensorParallelRanksGiveTheSameBits) {
  expect_same_leaves(
      {{2, "parallel.tp=2 parallel.sequence_parallel=true"},
       {4, "parallel.tp=2 parallel.pp=2 parallel.schedule=zb1p parallel.zero=1"},
       {8, "parallel.tp=8 parallel.sequence_parallel=true"}},
      "parallel.exact_leaves=8 model.seq_length=32 model.family=llama model.num_heads=8 "
      "model.num_kv_heads=2 model.qk_norm=true model.ffn_hidden_size=64 run.precision=fp16 "
      "optimizer.loss_scale=1024");
}
// Norms over all heads; latent heads with experts; tensorwise fp8 with Muon; sinks with a shared
// key head; Llama 4.
TEST_F(SlowEmulatedJobs, TensorParallelDegreesOfOtherModelsGiveTheSameBits) {
  const std::vector<Layout> layouts = {{2, "parallel.tp=2 parallel.sequence_parallel=true"},
                                       {4, "parallel.tp=4 parallel.sequence_parallel=true"}};
  const std::string llama = "parallel.exact_leaves=4 model.family=llama run.precision=bf16 ";
  expect_same_leaves(layouts, llama + "model.qk_norm=true model.qk_norm_over=all_heads");
  expect_same_leaves(layouts,
                     llama +
                         "model.kv_lora_rank=16 model.qk_nope_head_dim=8 model.qk_rope_head_dim=4 "
                         "model.v_head_dim=8 moe.num_experts=4 moe.shared_ffn_hidden_size=32 "
                         "moe.aux_loss_coeff=0.01");
  expect_same_leaves(layouts, llama +
                                  "model.seq_length=64 fp8.recipe=tensorwise fp8.format=hybrid "
                                  "fp8.power_of_2_scales=true optimizer.name=muon");
  expect_same_leaves(layouts, llama +
                                  "model.attention_sinks=true model.num_kv_heads=1 "
                                  "model.qkv_bias=true model.mtp_layers=1");
  expect_same_leaves(layouts, llama + llama4);
}

// Also works without a collectives library.
TEST_F(EmulatedJobs, CollectivesByWayOfTheHostGiveTheSameBits) {
  const Variable none("TRIREME_EMULATED_COLLECTIVES", "none");
  expect_same_bits({{2, "parallel.zero=3"}}, "parallel.numerics=exact");
  EXPECT_THAT(read("job0.out"), HasSubstr("collectives go through host memory"));
}

// Keys and values pass from rank to rank, with packed documents and shared heads.
TEST_F(EmulatedJobs, ARingLearnsTheSame) {
  const std::string settings = std::string(small) +
                               "model.family=llama model.num_kv_heads=2 model.attention_dropout=0 "
                               "data.reset_attention_mask=true parallel.cp_attention=ring ";
  ASSERT_EQ(train_on("reference", {1, settings}).code, 0) << read("reference.out");
  EXPECT_LE(difference_to("reference", {2, settings + "parallel.cp=2 run.device=cpu"}), 1e-6);
  EXPECT_LE(difference_to("reference", {2, settings + "parallel.cp=2 parallel.zero=3"}), 1e-6);
}
TEST_F(SlowEmulatedJobs, ARingLearnsTheSame) {
  const std::string settings = std::string(small) + two_steps +
                               "run.precision=bf16 model.position=alibi model.attention_dropout=0 "
                               "parallel.cp_attention=ring ";
  ASSERT_EQ(train_on("reference", {1, settings}).code, 0) << read("reference.out");
  for (const Layout& layout :
       {Layout{2, "parallel.cp=2 run.device=cpu"}, Layout{4, "parallel.cp=4 parallel.zero=2"},
        Layout{4, "parallel.cp=2 parallel.tp=2 parallel.recompute=full"},
        Layout{4, "parallel.cp=2 parallel.pp=2 parallel.schedule=zbv"}}) {
    EXPECT_LE(difference_to("reference", layout, settings), 1e-3) << layout.text();
  }
  const Variable none("TRIREME_EMULATED_COLLECTIVES", "none");
  EXPECT_LE(difference_to("reference", {2, "parallel.cp=2"}, settings), 1e-3);
}
// Dropout is drawn by positions in the whole sequence; the scores have a soft cap.
TEST_F(EmulatedJobs, ARingDropsWhatOneRankDrops) {
  const std::string settings = std::string(small) + two_steps +
                               "model.seq_length=32 model.attention_dropout=0.3 "
                               "model.attention_soft_cap=0.5 parallel.cp_attention=ring ";
  ASSERT_EQ(train_on("reference", {1, settings}).code, 0) << read("reference.out");
  EXPECT_LE(difference_to("reference", {2, settings + "parallel.cp=2"}), 1e-7);
}
// Messages arrive as late as possible.
TEST_F(SlowEmulatedJobs, ARingHasTheSameBitsWheneverItsMessagesArrive) {
  const std::string settings =
      std::string(small) + two_steps +
      "model.attention_dropout=0 parallel.cp=4 parallel.cp_attention=ring ";
  ASSERT_EQ(train_on("early", {4, settings}).code, 0) << read("early.out");
  const Variable order("TRIREME_STREAM_ORDER", "5");
  ASSERT_EQ(train_on("late", {4, settings}).code, 0) << read("late.out");
  EXPECT_EQ(metrics("late"), metrics("early"));
  EXPECT_EQ(first_difference(path("late"), path("early")), "");
}

TEST_F(EmulatedJobs, TensorParallelRanksLearnTheSame) {
  const std::string settings = small;
  ASSERT_EQ(train_on("reference", {1, settings}).code, 0) << read("reference.out");
  EXPECT_LE(
      difference_to("reference", {2, settings + "parallel.tp=2 parallel.sequence_parallel=true"}),
      1e-4);
}

// Norms over all heads, whose key heads are shared by ranks; and capped logits.
TEST_F(EmulatedJobs, TensorParallelNormsOfAllHeadsLearnTheSame) {
  const std::string settings = std::string(small) +
                               "model.family=llama model.num_kv_heads=2 model.qk_norm=true "
                               "model.qk_norm_over=all_heads model.logit_soft_cap=5 ";
  ASSERT_EQ(train_on("reference", {1, settings}).code, 0) << read("reference.out");
  for (const std::string layout :
       {"parallel.tp=2", "parallel.tp=4 parallel.sequence_parallel=true"}) {
    const int ranks = layout.starts_with("parallel.tp=2") ? 2 : 4;
    EXPECT_LE(difference_to("reference", {ranks, settings + layout}), 1e-4);
  }
}

// bf16 sums are in rank order, whichever implementation computes them.
TEST_F(EmulatedJobs, TensorParallelBitsDoNotDependOnTheLibrary) {
  const std::string settings = std::string(small) + "parallel.tp=2 run.precision=bf16 ";
  ASSERT_EQ(train_on("library", {2, settings}).code, 0) << read("library.out");
  const Variable none("TRIREME_EMULATED_COLLECTIVES", "none");
  ASSERT_EQ(train_on("host", {2, settings}).code, 0) << read("host.out");
  EXPECT_EQ(metrics("library"), metrics("host"));
  EXPECT_EQ(first_difference(path("library"), path("host")), "");
}

// A rank that waits for its GPU notices the stopped rank.
TEST_F(EmulatedJobs, AStoppedRankIsNamed) {
  Program program = start("run", {2, "parallel.zero=3"},
                          small + exact_ + " train.iters=100000 checkpoint.interval=100000");
  ASSERT_TRUE(advance(program, "run", 1, 0));
  send(program, "run", 1, SIGSTOP);
  expect_end(program, "run", timeout_s + end_s);
  const std::string output = read("run.out");
  EXPECT_THAT(output, HasSubstr("is not complete after"));
  EXPECT_THAT(output, testing::ContainsRegex("rank 1 on [^ ]+ \\(does not respond"));
  EXPECT_EQ(count_of(output, "trireme: rank"), 1) << output;
}

TEST_F(EmulatedJobs, MoreRanksThanGpusAreRefused) {
  const std::string settings = small;
  {
    const Variable devices("TRIREME_EMULATED_DEVICES", "2");
    const Outcome outcome = train_on("three", {3, settings + "train.global_batch_size=3"});
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("3 ranks run on "));
    EXPECT_THAT(outcome.out, HasSubstr("each of them sees 2 GPUs"));
    EXPECT_EQ(count_of(outcome.out, "trireme: "), 1) << outcome.out;
  }
  // Some launchers make one GPU visible per rank; the ranks check that they are different ones.
  const Variable devices("TRIREME_EMULATED_DEVICES", "1");
  const Outcome outcome = train_on("two", {2, settings});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("ranks 0 and 1 use the same GPU, with 2 ranks on their node"));
  EXPECT_EQ(count_of(outcome.out, "trireme: "), 1) << outcome.out;
}

TEST_F(SlowEmulatedJobs, EveryExactLayoutGivesTheSameBits) {
  const std::vector<Layout> layouts = {
      {2, ""},
      {2, "parallel.zero=1"},
      {2, "parallel.zero=2"},
      {4, "parallel.zero=3"},
      {4, "parallel.zero=3 parallel.dp_replicate=2"},
      {2, "parallel.pp=2 parallel.schedule=gpipe"},
      {2, "parallel.pp=2 parallel.schedule=1f1b"},
      {2, "parallel.pp=2 parallel.schedule=interleaved parallel.virtual_stages=2"},
      {2, "parallel.pp=2 parallel.schedule=zb1p"},
      {2, "parallel.pp=2 parallel.schedule=vhalf"},
      {4, "parallel.pp=2 parallel.schedule=zbv parallel.zero=2"}};
  expect_same_bits(sample_of(layouts, 1), "parallel.numerics=exact");
}

}  // namespace
}  // namespace trireme::testing_cli
