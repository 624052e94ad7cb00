// Tests the flags of gpt-oss: gates, sinks and YaRN.
#include <gmock/gmock.h>

#include "importers/megatron/translated.h"

namespace trireme::megatron {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kYarn =
    "--position-embedding-type yarn --rotary-base 150000 --rotary-scaling-factor 32 ";

TEST(Gates, QuickGegluIsASwigluOfAnotherSlope) {
  const ModelConfig model =
      config("--quick-geglu --activation-func-clamp-value 7 --glu-linear-offset 1").model;
  EXPECT_EQ(model.activation, MlpActivation::swiglu);
  EXPECT_EQ(model.gate_alpha, 1.702);
  EXPECT_EQ(model.activation_clamp, 7);
  EXPECT_EQ(model.gate_offset, 1);
  EXPECT_EQ(model.ffn_hidden_size, 256);  // Megatron widens the MLP of --swiglu alone
  EXPECT_EQ(config("--quick-geglu --ffn-hidden-size 96").model.ffn_hidden_size, 96);
  EXPECT_THAT(refusal("--swiglu --quick-geglu"), HasSubstr("--quick-geglu"));
}

TEST(Gates, ClampsAndOffsetsNeedGates) {
  EXPECT_EQ(config("--swiglu --glu-linear-offset 0.5").model.gate_offset, 0.5);
  const std::string experts = "--swiglu --disable-bias-linear --num-experts 4 ";
  EXPECT_EQ(config(experts + "--activation-func-clamp-value 7").model.activation_clamp, 7);
  EXPECT_THAT(refusal("--swiglu --activation-func-clamp-value 7"),
              HasSubstr("--activation-func-clamp-value"));
  EXPECT_THAT(refusal(experts + "--activation-func-clamp-value 7 --glu-linear-offset 1"),
              HasSubstr("--glu-linear-offset"));
  EXPECT_THAT(refusal("--quick-geglu --activation-func-clamp-value 0"), HasSubstr("not above 0"));
  const Translation plain = translated("--activation-func-clamp-value 7 --glu-linear-offset 1");
  EXPECT_EQ(to_config(plain).model.gate_offset, 0);
  EXPECT_THAT(noted(plain), Contains("--glu-linear-offset"));
  EXPECT_THAT(noted(plain), Contains("--activation-func-clamp-value"));
}

TEST(Gates, LearnableSoftmaxHasSinks) {
  EXPECT_TRUE(config("--softmax-type learnable").model.attention_sinks);
  EXPECT_FALSE(config("--softmax-type vanilla").model.attention_sinks);
  EXPECT_THAT(refusal("--softmax-type off-by-one"), HasSubstr("'off-by-one'"));
}

TEST(Gates, ExpertsHaveBiasesWhereOtherLayersDo) {
  const ModelConfig model = config("--num-experts 4 --quick-geglu").model;
  EXPECT_TRUE(model.moe.linear_bias && model.moe.router_bias && model.bias);
  EXPECT_FALSE(config("--num-experts 4 --disable-bias-linear").model.moe.linear_bias);
  EXPECT_THAT(refusal("--num-experts 4 --moe-shared-expert-intermediate-size 64"),
              HasSubstr("--disable-bias-linear"));
}

TEST(Yarn, HasItsOwnFlags) {
  const ModelConfig plain = config(kYarn).model;
  EXPECT_EQ(plain.position, PositionEncoding::rope);
  EXPECT_EQ(plain.rope_scaling, RopeScaling::yarn);
  EXPECT_EQ(plain.rope_scaling_factor, 32);
  EXPECT_EQ(plain.rope_original_length, 4096);
  EXPECT_EQ(plain.rope_beta_fast, 32);
  EXPECT_EQ(plain.rope_beta_slow, 1);
  EXPECT_TRUE(plain.rope_truncate);
  EXPECT_NEAR(plain.rope_attention_factor, 1.3465735902799727, 1e-12);  // 0.1 ln 32 + 1
  const ModelConfig other =
      config(std::string(kYarn) +
             "--yarn-original-max-position-embeddings 2048 --yarn-beta-fast 16 --yarn-beta-slow 2 "
             "--mscale 1 --mscale-all-dim 1 --no-yarn-correction-range-round-to-int")
          .model;
  EXPECT_EQ(other.rope_original_length, 2048);
  EXPECT_EQ(other.rope_beta_fast, 16);
  EXPECT_EQ(other.rope_beta_slow, 2);
  EXPECT_FALSE(other.rope_truncate);
  EXPECT_EQ(other.rope_attention_factor, 1);
}

TEST(Yarn, IsRefusedWhereItMeansSomethingElse) {
  EXPECT_THAT(refusal(std::string(kYarn) + "--use-rope-scaling"), HasSubstr("--use-rope-scaling"));
  EXPECT_THAT(refusal(std::string(kYarn) + "--rotary-percent 0.5"), HasSubstr("--rotary-percent"));
  EXPECT_THAT(refusal(std::string(kYarn) +
                      "--multi-latent-attention --qk-layernorm --normalization RMSNorm"),
              HasSubstr("--position-embedding-type"));
  const Translation unscaled = translated("--position-embedding-type yarn --yarn-beta-fast 16");
  EXPECT_EQ(to_config(unscaled).model.rope_scaling, RopeScaling::none);
  EXPECT_THAT(noted(unscaled), Contains("--yarn-beta-fast"));
}

}  // namespace
}  // namespace trireme::megatron
