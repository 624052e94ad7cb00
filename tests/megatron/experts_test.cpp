// Mixtures of experts: Megatron-LM's flags, and with --deepspeed Megatron-DeepSpeed's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "megatron/translated.h"

namespace trireme::megatron {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string mixtral =
    "--disable-bias-linear --swiglu --num-experts 8 --moe-router-topk 2 "
    "--moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2 --moe-grouped-gemm ";

TEST(Experts, OfMixtral) {
  const ExpertConfig moe =
      config(mixtral + "--moe-ffn-hidden-size 96 --moe-z-loss-coeff 1e-3").model.moe;
  EXPECT_EQ(moe.num_experts, 8);
  EXPECT_EQ(moe.top_k, 2);
  EXPECT_EQ(moe.ffn_hidden_size, 96);
  EXPECT_EQ(moe.score, "softmax");
  EXPECT_TRUE(moe.normalize_weights);
  EXPECT_EQ(moe.aux_loss, "batch");
  EXPECT_EQ(moe.aux_loss_coeff, 0.01);
  EXPECT_EQ(moe.z_loss_coeff, 0.001);
  EXPECT_EQ(moe.capacity_factor, 0);
}

TEST(Experts, OfDeepSeek) {
  const ExpertConfig moe =
      config(
          "--disable-bias-linear --num-experts 64 --moe-router-topk 4 --moe-layer-freq "
          "([0]*1+[1]*3) --num-layers 4 --moe-shared-expert-intermediate-size 64 "
          "--moe-router-score-function sigmoid --moe-router-topk-scaling-factor 2.5 "
          "--moe-router-num-groups 8 --moe-router-group-topk 4 --moe-router-enable-expert-bias "
          "--moe-router-bias-update-rate 1e-3 --moe-router-load-balancing-type seq_aux_loss "
          "--moe-aux-loss-coeff 1e-4")
          .model.moe;
  EXPECT_THAT(moe.layers, ElementsAre(1, 2, 3));
  EXPECT_EQ(moe.score, "sigmoid");
  EXPECT_EQ(moe.scaling_factor, 2.5);
  EXPECT_EQ(moe.num_groups, 8);
  EXPECT_EQ(moe.top_groups, 4);
  EXPECT_TRUE(moe.expert_bias);
  EXPECT_EQ(moe.bias_update_rate, 0.001);
  EXPECT_EQ(moe.aux_loss, "sequence");
  EXPECT_EQ(moe.shared_ffn_hidden_size, 64);
}

TEST(Experts, LayersAreANumberOrAList) {
  EXPECT_EQ(config(mixtral + "--moe-layer-freq 2 --num-layers 4").model.moe.layer_interval, 2);
  EXPECT_THAT(config(mixtral + "--moe-layer-freq [0,1]*2 --num-layers 4").model.moe.layers,
              ElementsAre(1, 3));
  EXPECT_THAT(refusal(mixtral + "--moe-layer-freq [0,1"), HasSubstr("--moe-layer-freq"));
  EXPECT_THAT(refusal(mixtral + "--moe-layer-freq [0]*4"), HasSubstr("no layer with experts"));
}

TEST(Experts, DropsArePerSequenceWithANote) {
  const std::string more = mixtral + "--moe-expert-capacity-factor 1.25 --moe-token-drop-policy ";
  const ExpertConfig moe = config(more + "position").model.moe;
  EXPECT_EQ(moe.capacity_factor, 1.25);
  EXPECT_EQ(moe.drop_policy, "position");
  EXPECT_EQ(config(more + "probs").model.moe.drop_policy, "weight");
  EXPECT_THAT(noted(translated(more + "probs")), Contains("--moe-expert-capacity-factor"));
}

TEST(Experts, OfMegatronDeepSpeed) {
  const std::string more = "--deepspeed --disable-bias-linear --num-experts 8 --num-layers 4 ";
  const ExpertConfig moe = config(more + "--moe-loss-coeff 0.01").model.moe;
  EXPECT_EQ(moe.top_k, 1);
  EXPECT_EQ(moe.first_layer, 1);
  EXPECT_EQ(moe.layer_interval, 2);
  EXPECT_FALSE(moe.normalize_weights);
  EXPECT_EQ(moe.aux_loss_coeff, 0.01);
  EXPECT_EQ(moe.capacity_factor, 1.0);
  EXPECT_EQ(config(more + "--disable-moe-token-dropping").model.moe.capacity_factor, 0);
  EXPECT_TRUE(config(more + "--topk 2").model.moe.normalize_weights);
}

TEST(Experts, RanksThatShareThem) {
  EXPECT_EQ(config(mixtral + "--expert-model-parallel-size 4").parallel.ep, 4);
  EXPECT_EQ(config("--deepspeed --disable-bias-linear --num-experts 8 --num-layers 4 "
                   "--moe-expert-parallel-size 2")
                .parallel.ep,
            2);
  EXPECT_EQ(config(mixtral).parallel.ep, 1);
}

TEST(Experts, WithoutThemTheirFlagsAreNoted) {
  EXPECT_THAT(noted(translated("--moe-router-topk 4")), Contains("--moe-router-topk"));
  EXPECT_EQ(config("--moe-router-topk 4").model.moe.num_experts, 0);
}

}  // namespace
}  // namespace trireme::megatron
