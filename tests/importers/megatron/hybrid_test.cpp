// Tests --hybrid-layer-pattern: pairs of attention and an MLP or experts are layers, others are
// refused.
#include <gmock/gmock.h>

#include "importers/megatron/translated.h"

namespace trireme::megatron {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kExperts = "--num-experts 8 --disable-bias-linear --moe-ffn-hidden-size 32 ";

TEST(HybridPattern, PairsAreLayers) {
  EXPECT_EQ(config("--hybrid-layer-pattern *-*-*-").model.num_layers, 3);
  EXPECT_EQ(config("--num-layers 6 --hybrid-override-pattern *-*-*-").model.num_layers, 3);
  const ModelConfig mixed = config(kExperts + std::string("--hybrid-layer-pattern *-*E*E")).model;
  EXPECT_EQ(mixed.num_layers, 3);
  EXPECT_THAT(mixed.moe.layers, ElementsAre(1, 2));
  const ModelConfig all = config(kExperts + std::string("--hybrid-layer-pattern *E*E")).model;
  EXPECT_EQ(all.num_layers, 2);
  EXPECT_TRUE(all.moe.in_layer(0) && all.moe.in_layer(1));
  EXPECT_EQ(config(kExperts + std::string("--hybrid-layer-pattern *-")).model.moe.num_experts, 0);
}

TEST(HybridPattern, BarsEndStages) {
  const std::string two = "--pipeline-model-parallel-size 2 --hybrid-layer-pattern ";
  EXPECT_THAT(config(two + "*-|*-*-").parallel.stage_layers, ElementsAre(1, 2));
  EXPECT_THAT(config(two + "*-*-|*-*-").parallel.stage_layers, IsEmpty());
  EXPECT_EQ(config(two + "*-|*-|*-|*-").parallel.virtual_stages, 2);
  EXPECT_THAT(config(two + "*-*-*- --decoder-first-pipeline-num-layers 4").parallel.stage_layers,
              ElementsAre(2, 1));
  EXPECT_THAT(refusal(two + "*-|*-|*-"), HasSubstr("--hybrid-layer-pattern: its 3 parts"));
  EXPECT_THAT(refusal(two + "*-|*-*-|*-|*-"), HasSubstr("its 4 parts"));
  EXPECT_THAT(refusal(two + "*-*-*- --decoder-first-pipeline-num-layers 3"),
              HasSubstr("--decoder-first-pipeline-num-layers"));
}

TEST(HybridPattern, OtherLayersAreRefusedByName) {
  const auto refused = [](const std::string& pattern) {
    return refusal("--hybrid-layer-pattern " + pattern);
  };
  EXPECT_THAT(refused("M-*-"), AllOf(HasSubstr("'M'"), HasSubstr("Mamba")));
  EXPECT_THAT(refused("*-G-"), HasSubstr("gated delta nets"));
  EXPECT_THAT(refused("D-"), HasSubstr("sparse attention"));
  EXPECT_THAT(refused("+-"), HasSubstr("latent attention"));
  EXPECT_THAT(refused("*-/*-"), HasSubstr("prediction of several tokens"));
  EXPECT_THAT(refused("**-"), HasSubstr("after 1 symbols"));
  EXPECT_THAT(refused("*--"), HasSubstr("after 2 symbols"));
  EXPECT_THAT(refused("*|-"), HasSubstr("after 1 symbols"));
  EXPECT_THAT(refused("*-x"), HasSubstr("'x' is not a symbol"));
  EXPECT_THAT(refused("*-*"), HasSubstr("its last layer"));
  EXPECT_THAT(refused("*E"), HasSubstr("need --num-experts"));
}

TEST(HybridPattern, WhatItsLayersDoNotReadIsRefused) {
  for (const char* flags : {"--qk-layernorm --normalization RMSNorm",
                            "--position-embedding-type rope --use-rope-scaling",
                            "--window-size 7,0 --window-attn-skip-freq 2"}) {
    EXPECT_THAT(refusal(std::string("--hybrid-layer-pattern *-*- ") + flags),
                HasSubstr("with --hybrid-layer-pattern"));
  }
  EXPECT_THAT(refusal("--is-hybrid-model"), HasSubstr("without --hybrid-layer-pattern"));
  const std::string spec =
      "--spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec ";
  EXPECT_EQ(config(spec + "--is-hybrid-model --hybrid-layer-pattern *-").model.num_layers, 1);
  EXPECT_THAT(refusal(spec), HasSubstr("--spec"));
}

}  // namespace
}  // namespace trireme::megatron
