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
  EXPECT_THAT(refused("*-G-"), HasSubstr("gated delta nets"));
  EXPECT_THAT(refused("D-"), HasSubstr("sparse attention"));
  EXPECT_THAT(refused("+-"), HasSubstr("latent attention"));
  EXPECT_THAT(refused("*-/*-"), HasSubstr("prediction of several tokens"));
  EXPECT_THAT(refused("*-x"), HasSubstr("'x' is not a symbol"));
  EXPECT_THAT(refused("**"), HasSubstr("no MLP ('-') and no experts ('E')"));
  EXPECT_THAT(refused("M*M"), HasSubstr("no MLP ('-') and no experts ('E')"));
  EXPECT_THAT(refused("||"), HasSubstr("no layers"));
  EXPECT_THAT(refused("*E"), HasSubstr("need --num-experts"));
}

TEST(HybridPattern, OtherSymbolsAreLayersByThemselves) {
  const ModelConfig m = config("--num-layers 5 --hybrid-layer-pattern **--*").model;
  EXPECT_EQ(m.num_layers, 5);
  EXPECT_THAT(m.mlp_layers, ElementsAre(2, 3));
  EXPECT_THAT(m.linear_layers, IsEmpty());
  const ModelConfig mixed = config(kExperts + std::string("--hybrid-layer-pattern *E-*")).model;
  EXPECT_THAT(mixed.mlp_layers, ElementsAre(1, 2));
  EXPECT_THAT(mixed.moe.layers, ElementsAre(1));
  const std::string two = "--pipeline-model-parallel-size 2 --hybrid-layer-pattern ";
  EXPECT_THAT(config(two + "*|-*-").parallel.stage_layers, ElementsAre(1, 3));
  EXPECT_THAT(config(two + "**-- --decoder-first-pipeline-num-layers 1").parallel.stage_layers,
              ElementsAre(1, 3));
}

constexpr const char* kLoads = "--load other --save own --disable-bias-linear ";

TEST(HybridPattern, MambaIsReadWithItsSizes) {
  const ModelConfig m =
      config(kLoads + std::string("--hybrid-layer-pattern M-M*- --mamba-head-dim 16")).model;
  EXPECT_THAT(m.linear_layers, ElementsAre(0, 2));
  EXPECT_THAT(m.mlp_layers, ElementsAre(1, 4));
  EXPECT_EQ(m.linear_kind, LinearKind::mamba2);
  EXPECT_EQ(m.linear_key_heads, 8);
  EXPECT_EQ(m.linear_key_head_dim, 128);
  EXPECT_EQ(m.linear_value_head_dim, 16);
  EXPECT_EQ(m.linear_value_heads, 2 * m.hidden_size / 16);
  EXPECT_EQ(m.linear_conv_width, 4);
  EXPECT_TRUE(m.linear_conv_bias);
  const ModelConfig sized =
      config(kLoads + std::string("--hybrid-layer-pattern M- --mamba-num-heads 6 "
                                  "--mamba-head-dim 32 --mamba-state-dim 16 --mamba-num-groups 2"))
          .model;
  EXPECT_EQ(sized.linear_key_heads, 2);
  EXPECT_EQ(sized.linear_key_head_dim, 16);
  EXPECT_EQ(sized.linear_value_heads, 6);
  EXPECT_EQ(sized.linear_value_head_dim, 32);
}

// The start of a new run, and what Trireme computes otherwise.
TEST(HybridPattern, MambaIsRefusedWhereItDiffers) {
  const std::string pattern = "--hybrid-layer-pattern M-*- ";
  EXPECT_THAT(refusal(pattern), AllOf(HasSubstr("'M'"), HasSubstr("dt_bias"), HasSubstr("--load")));
  EXPECT_THAT(refusal(pattern + "--load own --save own"), HasSubstr("dt_bias"));
  for (const auto& [flags, words] :
       {std::pair{"--reset-attention-mask", "continue across documents"},
        {"--optimizer muon --bf16", "one matrix in Megatron, and three here"},
        {"--norm-epsilon 1e-6", "whose own norm has 1e-5"},
        {"--mamba-head-dim 96", "--mamba-num-heads: is needed"}})
    EXPECT_THAT(refusal(kLoads + pattern + flags), HasSubstr(words)) << flags;
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
