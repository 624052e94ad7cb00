// Tests of rules that involve several keys of experts and of fp8.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "config/refused.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Validate, Fp8GoesWithWhatItCanRoundCertainly) {
  EXPECT_EQ(refused({"fp8.recipe=tensorwise", "fp8.format=hybrid", "fp8.encoding=fnuz"}),
            "accepted");
  EXPECT_THAT(refused({"fp8.format=hybrid"}),
              AllOf(HasSubstr("fp8.format has no effect without fp8.recipe"),
                    HasSubstr("\"tensorwise\" or \"blockwise\"")));
  EXPECT_EQ(refused({"fp8.recipe=blockwise", "run.device=cuda"}), "accepted");
  const std::string experts = "moe.num_experts=4", no_bias = "model.bias=false";
  EXPECT_EQ(refused({"fp8.recipe=blockwise", experts, no_bias}), "accepted");
  EXPECT_THAT(
      refused({"fp8.recipe=blockwise", "fp8.first_layers_bf16=8", "fp8.last_layers_bf16=4"}),
      AllOf(HasSubstr("fp8.first_layers_bf16 = 8"), HasSubstr("num_layers = 12")));
}

TEST(Validate, RanksCutNoBlocksOfFp8) {
  const auto on = [](const char* recipe, std::int64_t ranks, std::vector<std::string> more) {
    more.push_back(fmt::format("fp8.recipe={}", recipe));
    return layout_refused(ranks, more);
  };
  // 12 heads of 64 and an MLP of 3072.
  EXPECT_EQ(on("blockwise", 2, {"parallel.tp=2"}), "accepted");
  EXPECT_THAT(on("blockwise", 4, {"parallel.tp=4"}), HasSubstr("model.num_heads x head_dim = 768"));
  EXPECT_THAT(on("blockwise", 2, {"parallel.tp=2", "model.ffn_hidden_size=128"}),
              AllOf(HasSubstr("model.ffn_hidden_size = 128"), HasSubstr("multiple of 128"),
                    HasSubstr("tensorwise")));
  EXPECT_THAT(on("blockwise", 2, {"parallel.tp=2", "model.num_kv_heads=1"}),
              HasSubstr("model.head_dim = 64"));
  EXPECT_THAT(on("blockwise", 2,
                 {"parallel.tp=2", "parallel.sequence_parallel=true", "moe.num_experts=4",
                  "model.bias=false", "moe.shared_ffn_hidden_size=384"}),
              HasSubstr("moe.shared_ffn_hidden_size = 384 over parallel.tp = 2 is 192"));
  EXPECT_EQ(on("tensorwise", 4, {"parallel.tp=4"}), "accepted");
  EXPECT_EQ(on("blockwise", 4, {"parallel.cp=4"}), "accepted");  // chunks of 128
  EXPECT_THAT(on("blockwise", 8, {"parallel.cp=8"}), HasSubstr("model.seq_length = 1024"));
  EXPECT_EQ(
      on("blockwise", 8, {"parallel.cp=8", "parallel.numerics=exact", "parallel.exact_block=64"}),
      "accepted");
}

TEST(Validate, PyramidsOfExperts) {
  const auto with = [](const std::string& numbers, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"moe.experts_by_layer=" + numbers, "model.num_layers=4",
                                    "moe.layer_interval=2", "model.bias=false"};
    all.insert(all.end(), more.begin(), more.end());
    return refused(all);
  };
  EXPECT_EQ(with("[4,8]"), "accepted");
  EXPECT_EQ(with("[8,4]", {"moe.num_experts=8"}), "accepted");
  EXPECT_EQ(with("[4,8]", {"parallel.ep=4"}), "accepted");
  EXPECT_THAT(with("[4,8,8]"), HasSubstr("has 3 numbers, but 2 of model.num_layers = 4 layers"));
  EXPECT_THAT(with("[4,8]", {"moe.num_experts=6"}), HasSubstr("remove num_experts"));
  EXPECT_THAT(with("[1,8]"),
              HasSubstr("moe.top_k = 2 exceeds moe.experts_by_layer[0] = 1: use at most that"));
  EXPECT_THAT(
      with("[4,8]", {"parallel.ep=8"}),
      HasSubstr("moe.experts_by_layer[0] = 4 is not divisible by parallel.ep = 8: ep can be"));
  EXPECT_THAT(with("[8,6]", {"moe.num_groups=4", "moe.top_groups=2"}),
              HasSubstr("moe.experts_by_layer[1] = 6 is not divisible by moe.num_groups = 4"));
  EXPECT_EQ(with("[256,257]", {"moe.score=sigmoid", "moe.expert_bias=true"}), "accepted");
}

TEST(Validate, ExpertsInSlices) {
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.end(), {"moe.num_experts=4", "model.bias=false", "moe.ffn_hidden_size=384"});
    return layout_refused(4, more);
  };
  const std::string slices = "parallel.expert_tp=2";
  EXPECT_EQ(with({slices}), "accepted");
  EXPECT_THAT(refused({slices}), HasSubstr("parallel.expert_tp = 2 has no effect without moe"));
  EXPECT_THAT(refused({slices, "moe.num_experts=4", "model.bias=false", "moe.ffn_hidden_size=75"}),
              HasSubstr("moe.ffn_hidden_size = 75 is not divisible by parallel.expert_tp = 2"));
  EXPECT_THAT(refused({slices, "moe.num_experts=4", "model.bias=false", "optimizer.name=muon"}),
              HasSubstr("conflicts with optimizer.name = \"muon\""));
  EXPECT_THAT(with({slices, "fp8.recipe=tensorwise"}), HasSubstr("use recipe = \"blockwise\""));
  EXPECT_THAT(with({slices, "fp8.recipe=blockwise"}),
              HasSubstr("moe.ffn_hidden_size = 384 over parallel.expert_tp = 2 is 192"));
}

TEST(Validate, ResidualExpertsAndABalanceOverTheBatch) {
  const std::string experts = "moe.num_experts=8", mixed = "moe.residual=true";
  EXPECT_THAT(refused({mixed}), HasSubstr("has no effect without moe.num_experts"));
  EXPECT_THAT(refused({experts, mixed}), HasSubstr("set moe.shared_ffn_hidden_size"));
  EXPECT_EQ(refused({experts, mixed, "moe.shared_ffn_hidden_size=64"}), "accepted");
  EXPECT_THAT(refused({experts, mixed, "moe.shared_ffn_hidden_size=64", "moe.shared_gate=true"}),
              HasSubstr("remove moe.shared_gate"));
  const std::string global = "moe.aux_loss=global", weight = "moe.aux_loss_coeff=0.01";
  EXPECT_EQ(refused({experts, global, weight}), "accepted");
  EXPECT_THAT(refused({experts, global, weight, "run.gradient_dtype=bf16"}),
              AllOf(HasSubstr("moe.aux_loss = \"global\""), HasSubstr("use fp32")));
  EXPECT_EQ(refused({"moe.num_experts=512", global, weight}), "accepted");
  const std::string gpu = "run.device=cuda";
  EXPECT_EQ(refused({experts, global, weight, gpu}), "accepted");
  EXPECT_EQ(refused({experts, mixed, "moe.shared_ffn_hidden_size=64", gpu}), "accepted");
}

TEST(Validate, WhatGptOssAddsGoesWithWhatReadsIt) {
  const std::string experts = "moe.num_experts=4", llama = "model.family=llama";
  for (const std::string key : {"router_bias", "linear_bias"}) {
    EXPECT_EQ(refused({llama, experts, "moe." + key + "=true"}), "accepted");
    EXPECT_THAT(refused({llama, "moe." + key + "=true"}),
                AllOf(HasSubstr("moe." + key), HasSubstr("moe.num_experts")));
  }
  for (const std::string key : {"activation_clamp", "gate_alpha", "gate_offset"}) {
    EXPECT_EQ(refused({llama, "model." + key + "=2"}), "accepted");
    EXPECT_THAT(refused({llama, "model.activation=geglu", "model." + key + "=2"}),
                AllOf(HasSubstr("model." + key), HasSubstr("swiglu"), HasSubstr("geglu")));
  }
  EXPECT_EQ(refused({"model.attention_sinks=true"}), "accepted");
  EXPECT_THAT(refused({llama, experts, "moe.linear_bias=true", "parallel.expert_tp=2"}),
              AllOf(HasSubstr("parallel.expert_tp = 2"), HasSubstr("moe.linear_bias")));
}

}  // namespace
}  // namespace trireme
