// Tests of the settings that the model family implies, and that user settings are never overridden.
#include <gtest/gtest.h>

#include "config/config.h"

namespace trireme {
namespace {

ModelConfig model_of(const std::string& keys) {
  return parse_config("[model]\nhidden_size = 768\nnum_heads = 12\nseq_length = 128\n" + keys, "t")
      .model;
}

TEST(Resolve, Gpt) {
  const ModelConfig model = model_of("family = 'gpt'\n");
  EXPECT_EQ(model.position, PositionEncoding::learned);
  EXPECT_EQ(model.norm, NormType::layer_norm);
  EXPECT_EQ(model.norm_eps, 1e-5);
  EXPECT_EQ(model.activation, MlpActivation::gelu_tanh);
  EXPECT_TRUE(model.bias && model.qkv_bias && model.tie_embeddings);
  EXPECT_EQ(model.head_dim, 64);
  EXPECT_EQ(model.num_kv_heads, 12);
  EXPECT_EQ(model.ffn_hidden_size, 3072);
  EXPECT_EQ(model.max_positions, 128);
}

TEST(Resolve, Llama) {
  const ModelConfig model = model_of("family = 'llama'\n");
  EXPECT_EQ(model.position, PositionEncoding::rope);
  EXPECT_EQ(model.norm, NormType::rms_norm);
  EXPECT_EQ(model.activation, MlpActivation::swiglu);
  EXPECT_FALSE(model.bias || model.qkv_bias || model.tie_embeddings);
  EXPECT_EQ(model.ffn_hidden_size, 2048);
  EXPECT_EQ(
      parse_config("[model]\nfamily = 'llama'\nhidden_size = 4096\n", "t").model.ffn_hidden_size,
      10880);  // int(8 h / 3 / 64) * 64
}

TEST(Resolve, Bert) {
  const ModelConfig model = model_of("family = 'bert'\n");
  EXPECT_EQ(model.norm_eps, 1e-12);
  EXPECT_EQ(model.activation, MlpActivation::gelu_erf);
  EXPECT_EQ(model.position, PositionEncoding::learned);
  EXPECT_TRUE(model.bias && model.tie_embeddings);
}

TEST(Resolve, NeverOverrulesTheUser) {
  const ModelConfig model = model_of(
      "family = 'llama'\nbias = true\ntie_embeddings = true\nposition = 'learned'\nnorm = ''\n"
      "ffn_hidden_size = 100\nnum_kv_heads = 3\nmax_positions = 999\nactivation = 'silu'\n");
  EXPECT_TRUE(model.bias && model.tie_embeddings);
  EXPECT_TRUE(model.qkv_bias);  // defaults to bias
  EXPECT_EQ(model.position, PositionEncoding::learned);
  EXPECT_EQ(model.norm, NormType::rms_norm);  // "" means that the family decides
  EXPECT_EQ(model.activation, MlpActivation::silu);
  EXPECT_EQ(model.ffn_hidden_size, 100);
  EXPECT_EQ(model.num_kv_heads, 3);
  EXPECT_EQ(model.max_positions, 999);
  EXPECT_EQ(model_of("family = 'bert'\nnorm_eps = 1e-5\n").norm_eps, 1e-5);
}

TEST(Resolve, QkvBiasAlone) {
  const ModelConfig model = model_of("family = 'llama'\nqkv_bias = true\n");
  EXPECT_FALSE(model.bias);
  EXPECT_TRUE(model.qkv_bias);
  EXPECT_FALSE(model_of("family = 'gpt'\nbias = false\n").qkv_bias);
}

TEST(Resolve, IsIdempotentAndSurvivesPrinting) {
  Config config = parse_config(
      "[model]\nfamily = 'llama'\nhidden_size = 96\nnum_heads = 4\nqkv_bias = true\n", "t");
  const std::string once = to_toml(config);
  resolve(config.model);
  EXPECT_EQ(to_toml(config), once);
  EXPECT_EQ(to_toml(parse_config(once, "t")), once);
}

// A model defined in code has no explicit keys: values that differ from the defaults are kept.
TEST(Resolve, ModelFromCode) {
  ModelConfig model{.family = "gpt", .num_layers = 1, .hidden_size = 32, .num_heads = 4};
  model.bias = false;
  model.activation = MlpActivation::swiglu;
  resolve(model);
  EXPECT_FALSE(model.bias || model.qkv_bias);
  EXPECT_EQ(model.activation, MlpActivation::swiglu);
  EXPECT_EQ(model.ffn_hidden_size, 64);
}

}  // namespace
}  // namespace trireme
