// Tests of config.json of gpt-oss in both directions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/huggingface/config.h"

namespace trireme {
namespace {

using testing::HasSubstr;

// The published file except for sizes; with additional keys.
std::string gpt_oss_config(const std::string& more = "") {
  return R"({"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "vocab_size": 40,
      "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
      "experts_per_token": 2, "initial_context_length": 4096, "max_position_embeddings": 131072,
      "attention_bias": true, "attention_dropout": 0.0, "hidden_act": "silu", "rms_norm_eps": 1e-05,
      "rope_theta": 150000, "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0,
      "beta_slow": 1.0, "original_max_position_embeddings": 4096, "truncate": false},
      "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
      "tie_word_embeddings": false, "output_router_logits": false, "use_cache": true,
      "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})" +
         (more.empty() ? "" : ", " + more) + "}";
}

HuggingFaceModel read_gpt_oss(const std::string& more = "") {
  return parse_huggingface_config(gpt_oss_config(more), "config.json");
}

TEST(GptOssConfig, GoesThereAndBack) {
  const ModelConfig m = read_gpt_oss().model;
  EXPECT_TRUE(m.attention_sinks && m.bias && m.qkv_bias && !m.rope_truncate);
  EXPECT_EQ(m.activation_clamp, 7);
  EXPECT_EQ(m.gate_alpha, 1.702);
  EXPECT_EQ(m.gate_offset, 1);
  EXPECT_EQ(m.attention_window, 128);
  EXPECT_EQ(m.window_layers, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(m.rope_scaling, RopeScaling::yarn);
  EXPECT_TRUE(m.moe.router_bias && m.moe.linear_bias);
  EXPECT_EQ(m.moe.num_experts, 8);
  EXPECT_EQ(huggingface_kind(m), &gpt_oss_kind);
}

TEST(GptOssConfig, LayersHaveTheWindowsThatTheFileNames) {
  const ModelConfig m = read_gpt_oss(R"("layer_types": ["full_attention", "sliding_attention",
      "full_attention", "full_attention"])")
                            .model;
  EXPECT_EQ(m.window_layers, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(huggingface_kind(m), &gpt_oss_kind);
}

TEST(GptOssConfig, EmptyRotaryParametersAreNoneAndAbsentOnesAreScaled) {
  const auto scaling = [](const std::string& key) {
    std::string text = gpt_oss_config();
    const std::size_t begin = text.find("\"rope_theta\""), end = text.find('}', begin);
    text.replace(begin, end + 1 - begin, key);
    return parse_huggingface_config(text, "config.json").model.rope_scaling;
  };
  EXPECT_EQ(scaling(R"("rope_parameters": {})"), RopeScaling::none);
  EXPECT_EQ(scaling(R"("rope_parameters": null)"), RopeScaling::yarn);
  EXPECT_EQ(scaling(R"("rope_scaling": {})"), RopeScaling::yarn);
}

TEST(GptOssConfig, OtherQuantizationsAreRefused) {
  std::string text = gpt_oss_config();
  text.replace(text.find("mxfp4"), 5, "bitsy");
  EXPECT_THAT([&] { parse_huggingface_config(text, "config.json"); },
              testing::ThrowsMessage<Error>(HasSubstr("quantization_config.quant_method")));
}

// The model differs in settings for which the class has no key.
TEST(GptOssConfig, ExportsNothingElse) {
  const auto refused = [](void (*change)(ModelConfig&)) {
    ModelConfig m = read_gpt_oss().model;
    change(m);
    EXPECT_THROW(huggingface_kind(m), Error);
  };
  refused([](ModelConfig& m) { m.attention_sinks = false; });
  refused([](ModelConfig& m) { m.gate_offset = 0; });
  refused([](ModelConfig& m) { m.moe.linear_bias = false; });
  refused([](ModelConfig& m) { m.moe.router_bias = false; });
  refused([](ModelConfig& m) { m.moe.score = RouterScore::sigmoid; });
}

}  // namespace
}  // namespace trireme
