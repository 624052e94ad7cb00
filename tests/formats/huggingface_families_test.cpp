// Tests of config.json for families that differ from Llama in the positions of some layers,
// multipliers, or tensor storage: both directions, defaults of short files, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/huggingface/config.h"
#include "formats/huggingface/names.h"
#include "refusal.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Json = nlohmann::json;
using Layers = std::vector<std::int64_t>;

// Returns a small config.json of a class, with these changes.
std::string file_of(const std::string& type, const Json& changes) {
  Json json = {
      {"model_type", type},       {"vocab_size", 40},       {"hidden_size", 32},
      {"intermediate_size", 24},  {"num_hidden_layers", 4}, {"num_attention_heads", 4},
      {"num_key_value_heads", 2}, {"head_dim", 8},          {"max_position_embeddings", 64}};
  json.update(changes);
  return json.dump();
}

HuggingFaceModel read(const std::string& type, const Json& changes = Json::object()) {
  return parse_huggingface_config(file_of(type, changes), "config.json");
}

std::string refused(const std::string& type, const Json& changes) {
  return refusal_of([&] { read(type, changes); });
}

const Json types = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
const Json yarn = {{"rope_type", "yarn"},
                   {"rope_theta", 1e6},
                   {"factor", 4.0},
                   {"original_max_position_embeddings", 16},
                   {"llama_4_scaling_beta", 0.1}};
const Json linear_types = {"linear_attention", "full_attention", "linear_attention",
                           "full_attention"};
const Json linear = {{"num_experts", 8},          {"num_experts_per_tok", 2},
                     {"linear_num_key_heads", 2}, {"linear_num_value_heads", 4},
                     {"linear_key_head_dim", 8},  {"linear_value_head_dim", 16}};

Json with_linear(const Json& changes) {
  Json all = linear;
  all.update(changes);
  return all;
}

const Json experts = {
    {"n_routed_experts", 8}, {"num_experts_per_tok", 4},   {"moe_intermediate_size", 8},
    {"n_shared_experts", 1}, {"first_k_dense_replace", 1}, {"n_group", 1},
    {"topk_group", 1},       {"norm_topk_prob", true}};

Json with_experts(const Json& changes) {
  Json all = experts;
  all.update(changes);
  return all;
}

Json with_four(const Json& changes) {
  Json all = {{"intermediate_size_mlp", 20}, {"attention_chunk_size", 8}};
  all.update(changes);
  return all;
}

const Json mamba_types = {"mamba", "attention", "linear_attention", "full_attention"};

const Json nemotron_types = {"linear_attention", "mlp", "attention", "moe"};

Json with_mamba(const Json& changes) {
  Json all = {{"shared_intermediate_size", 20},
              {"mamba_n_heads", 4},
              {"mamba_d_state", 6},
              {"num_local_experts", 0}};
  all.update(changes);
  return all;
}

Json with_parts(const Json& changes) {
  Json all = {{"layers_block_type", nemotron_types}};
  all.update(changes);
  return all;
}

TEST(HuggingFaceFamilies, GoThereAndBack) {
  std::vector<std::pair<const char*, Json>> cases = {
      {"smollm3", {{"no_rope_layer_interval", 2}}},
      {"smollm3", {{"no_rope_layers", {0, 1, 1, 0, 1}}}},
      {"smollm3", {{"use_sliding_window", true}, {"sliding_window", 8}}},
      {"ministral", {{"sliding_window", 8}, {"layer_types", types}}},
      {"ministral3", {{"rope_parameters", yarn}}},
      {"phi3", {{"partial_rotary_factor", 0.5}, {"sliding_window", 8}}},
      {"phi3",
       {{"original_max_position_embeddings", 16},
        {"rope_scaling",
         {{"type", "longrope"},
          {"short_factor", {1.0, 1.5, 2.0, 2.5}},
          {"long_factor", {1.0, 3.0, 5.5, 7.0}}}}}},
      {"phi3",
       {{"original_max_position_embeddings", 16},
        {"partial_rotary_factor", 0.5},
        {"rope_scaling",
         {{"type", "longrope"},
          {"short_factor", {1.0, 1.5}},
          {"long_factor", {1.0, 3.0}},
          {"attention_factor", 1.25}}}}},
      {"olmo3", {{"sliding_window", 8}}},
      {"olmo3",
       {{"sliding_window", 8}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}}},
      {"olmo3",
       {{"sliding_window", 8},
        {"rope_parameters",
         {{"full_attention", {{"rope_theta", 1e6}, {"type", "linear"}, {"factor", 2.0}}},
          {"sliding_attention", {{"rope_theta", 1e3}}}}}}},
      {"exaone4", {{"sliding_window", 8}}},
      {"exaone4", {{"sliding_window", nullptr}}},
      {"gemma3_text", {{"sliding_window", 8}, {"sliding_window_pattern", 3}}},
      {"gemma3_text",
       {{"sliding_window", 8},
        {"layer_types", types},
        {"final_logit_softcapping", 30.0},
        {"query_pre_attn_scalar", 16},
        {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}}},
      {"glm", Json::object()},
      {"glm4", {{"attention_bias", false}}},
      {"granite", {{"embedding_multiplier", 12.0}, {"logits_scaling", 3.0}}},
      {"granite", {{"residual_multiplier", 0.22}, {"attention_multiplier", 0.125}}},
      {"arcee", {{"attention_bias", true}, {"mlp_bias", true}}},
      {"qwen3_next", linear},
      {"qwen3_next", with_linear({{"layer_types", linear_types}, {"linear_conv_kernel_dim", 3}})},
      {"qwen3_5_text",
       {{"layer_types", linear_types},
        {"linear_num_key_heads", 2},
        {"linear_num_value_heads", 4},
        {"linear_key_head_dim", 8},
        {"linear_value_head_dim", 16},
        {"mtp_num_hidden_layers", 1}}},
      {"qwen3_5_text", {{"full_attention_interval", 1}}},
      {"qwen3_next",
       with_linear({{"num_nextn_predict_layers", 1}, {"partial_rotary_factor", 0.5}})},
      {"glm4_moe", with_experts({{"use_qk_norm", true}, {"attention_bias", true}})},
      {"dots1", with_experts({{"sliding_window", 8}, {"max_window_layers", 2}})},
  };
  for (const Json& changes :
       {Json::object(), Json{{"interleave_moe_layer_step", 2}}, Json{{"moe_layers", {1, 2}}},
        Json{{"moe_layers", Json::array()}, {"no_rope_layers", {0, 1, 1, 0}}},
        Json{{"use_qk_norm", false}, {"num_experts_per_tok", 2}, {"attn_scale", 0.25}},
        Json{{"attn_temperature_tuning", false},
             {"layer_types",
              {"full_attention", "full_attention", "chunked_attention", "chunked_attention"}}},
        Json{{"rope_scaling",
              {{"rope_type", "llama3"},
               {"factor", 16.0},
               {"low_freq_factor", 1.0},
               {"high_freq_factor", 1.5},
               {"original_max_position_embeddings", 16}}}}})
    cases.emplace_back("llama4_text", with_four(changes));
  for (const Json& changes :
       {Json::object(), Json{{"layer_types", mamba_types}, {"mamba_n_groups", 2}},
        Json{{"layer_types", mamba_types}, {"position_embedding_type", "rope"}},
        Json{{"num_local_experts", 8}, {"mamba_conv_bias", false}, {"mamba_d_conv", 3}},
        Json{{"layer_types", {"attention", "attention", "attention", "attention"}},
             {"residual_multiplier", 0.5},
             {"num_local_experts", 4},
             {"num_experts_per_tok", 1}}})
    cases.emplace_back("granitemoehybrid", with_mamba(changes));
  for (const Json& changes :
       {Json{{"hybrid_override_pattern", "M-*-"}},
        Json{{"layers_block_type", nemotron_types}, {"n_groups", 2}, {"mamba_num_heads", 6}},
        Json{{"hybrid_override_pattern", "*-*-"}, {"mlp_hidden_act", "gelu"}},
        Json{{"hybrid_override_pattern", "ME*E"},
             {"use_conv_bias", false},
             {"num_experts_per_tok", 4},
             {"n_group", 4},
             {"topk_group", 2},
             {"routed_scaling_factor", 2.5}}})
    cases.emplace_back("nemotron_h", changes);
  for (const auto& [type, changes] : cases) {
    SCOPED_TRACE(type + changes.dump());
    const HuggingFaceModel first = read(type, changes);
    EXPECT_STREQ(first.kind->model_type, type);
    EXPECT_EQ(huggingface_kind(first.model), first.kind);
    const HuggingFaceModel again =
        parse_huggingface_config(huggingface_config_text(first, "float32"), "config.json");
    Config before, after;
    before.model = first.model;
    after.model = again.model;
    after.model.logit_multiplier = before.model.logit_multiplier;  // 1 / (1 / 3)
    EXPECT_NEAR(again.model.logit_multiplier, first.model.logit_multiplier, 1e-15);
    if (first.model.attention_scale == 0) after.model.attention_scale = 0;  // 1/sqrt(head_dim)
    EXPECT_EQ(to_toml(after), to_toml(before));
  }
}

TEST(HuggingFaceFamilies, ShortFilesMeanWhatTheClassAssumes) {
  const ModelConfig smollm3 = read("smollm3").model;
  EXPECT_EQ(smollm3.no_rope_layers, Layers{3});
  EXPECT_EQ(smollm3.rope_base, 2e6);
  EXPECT_TRUE(smollm3.tie_embeddings);
  const ModelConfig gemma3 = read("gemma3_text", {{"num_hidden_layers", 7}}).model;
  EXPECT_EQ(gemma3.window_layers, (Layers{0, 1, 2, 3, 4, 6}));
  EXPECT_EQ(gemma3.rope_base, 1e6);
  EXPECT_EQ(gemma3.rope_base_local, 1e4);
  EXPECT_TRUE(gemma3.qk_norm && gemma3.zero_centered_qk_norms);
  const ModelConfig olmo3 = read("olmo3").model;
  EXPECT_EQ(olmo3.window_layers, (Layers{0, 1, 2}));
  EXPECT_EQ(olmo3.rope_base, 5e5);
  EXPECT_EQ(olmo3.rope_base_local, 0);
  EXPECT_EQ(read("exaone4").model.no_rope_layers, Layers{3});
  EXPECT_EQ(read("glm4").model.rope_percent, 0.5);
  // transformers applies its default to an absent key, but not to null.
  EXPECT_EQ(read("glm4", {{"partial_rotary_factor", nullptr}}).model.rope_percent, 1);
  EXPECT_TRUE(read("glm4").model.qkv_bias);
  EXPECT_FALSE(read("glm4").model.bias);
  EXPECT_EQ(read("granite").model.attention_scale, 1);
  EXPECT_EQ(read("arcee").model.activation, MlpActivation::squared_relu);
  EXPECT_EQ(read("glm4_moe").model.moe.num_experts, 128);
  EXPECT_EQ(read("ministral").model.attention_window, 4096);
  const ModelConfig next = read("qwen3_next", {{"num_hidden_layers", 6}}).model;
  EXPECT_EQ(next.linear_layers, (Layers{0, 1, 2, 4, 5}));
  EXPECT_EQ(next.linear_value_heads, 32);
  EXPECT_EQ(next.rope_percent, 0.25);
  EXPECT_EQ(next.moe.num_experts, 512);
  EXPECT_TRUE(next.attention_gate && next.moe.shared_gate && next.moe.normalize_weights);
  const ModelConfig five =
      read("qwen3_5_moe_text",
           {{"moe_intermediate_size", 20},
            {"rope_parameters", {{"rope_theta", 1e7}, {"mrope_section", {11, 11, 10}}}}})
          .model;
  EXPECT_EQ(five.linear_layers, (Layers{0, 1, 2}));
  EXPECT_EQ(five.rope_percent, 0.25);
  EXPECT_EQ(five.rope_base, 1e7);
  EXPECT_EQ(five.moe.num_experts, 256);
  EXPECT_EQ(five.moe.top_k, 8);
  EXPECT_EQ(five.moe.ffn_hidden_size, 20);
  EXPECT_TRUE(five.moe.shared_gate && five.moe.normalize_weights);
  const ModelConfig four =
      read("llama4_text", {{"intermediate_size_mlp", 20}, {"no_rope_layers", Json::array()}}).model;
  EXPECT_EQ(four.no_rope_layers, Layers{3});
  EXPECT_EQ(four.window_layers, (Layers{0, 1, 2}));
  EXPECT_EQ(four.attention_window, 8192);
  EXPECT_EQ(four.rope_base, 5e5);
  EXPECT_EQ(four.no_rope_query_beta, 0.1);
  EXPECT_EQ(four.moe.num_experts, 16);
  EXPECT_EQ(four.moe.top_k, 1);
  EXPECT_EQ(four.moe.shared_ffn_hidden_size, 24);
  EXPECT_TRUE(four.window_chunks && four.qk_l2_norm && four.moe.scale_inputs);
  const ModelConfig granite4 =
      read("granitemoehybrid", {{"shared_intermediate_size", 20}, {"mamba_n_heads", 2}}).model;
  EXPECT_EQ(granite4.linear_layers, (Layers{0, 1, 2, 3}));
  EXPECT_EQ(granite4.linear_key_heads, 1);
  EXPECT_EQ(granite4.linear_key_head_dim, 256);
  EXPECT_EQ(granite4.linear_value_head_dim, 32);
  EXPECT_EQ(granite4.moe.num_experts, 8);
  EXPECT_EQ(granite4.position, PositionEncoding::none);
  EXPECT_TRUE(granite4.linear_conv_bias && granite4.moe.normalize_weights);
  const ModelConfig nemotron = read("nemotron_h", {{"hybrid_override_pattern", "M-*E"}}).model;
  EXPECT_EQ(nemotron.linear_layers, Layers{0});
  EXPECT_EQ(nemotron.mlp_layers, (Layers{1, 3}));
  EXPECT_EQ(nemotron.moe.layers, Layers{3});
  EXPECT_EQ(nemotron.moe.shared_ffn_hidden_size, 7688);
  EXPECT_EQ(nemotron.linear_key_heads, 8);
  EXPECT_EQ(nemotron.linear_value_heads, 128);
  EXPECT_EQ(nemotron.linear_key_head_dim, 128);
  EXPECT_EQ(nemotron.linear_value_head_dim, 64);
  EXPECT_EQ(nemotron.activation, MlpActivation::squared_relu);
  EXPECT_EQ(nemotron.position, PositionEncoding::none);
  EXPECT_TRUE(nemotron.linear_conv_bias && !nemotron.tie_embeddings && !nemotron.bias);
}

// Python's JSON has infinity as a bare word, which published files contain.
TEST(HuggingFaceFamilies, InfinityIsAWord) {
  std::string file = file_of("nemotron_h", {{"hybrid_override_pattern", "M-*-"},
                                            {"time_step_limit", {0.0, "here"}},
                                            {"_name_or_path", "to \\\"Infinity\\\""}});
  file.replace(file.find("\"here\""), 6, "Infinity");
  EXPECT_EQ(parse_huggingface_config(file, "config.json").model.num_layers, 4);
  file.replace(file.find("Infinity]"), 8, "0.1");
  EXPECT_THAT(refusal_of([&] { parse_huggingface_config(file, "config.json"); }),
              HasSubstr("time_step_limit"));
}

// What transformers computes without mamba_ssm differs from what all others compute.
TEST(HuggingFaceFamilies, BoundsOfTimeStepsAreNoted) {
  const auto note = [](const Json& changes) {
    Json all = {{"hybrid_override_pattern", "M-*-"}};
    all.update(changes);
    return read("nemotron_h", all).note;
  };
  EXPECT_THAT(note(Json::object()), HasSubstr("time_step_min bounds time steps only in"));
  EXPECT_THAT(note({{"time_step_min", 0.001}}), HasSubstr("Trireme does not apply it"));
  EXPECT_EQ(note({{"time_step_min", 1e-30}}), "");
  EXPECT_EQ(note({{"hybrid_override_pattern", "*-*-"}}), "");
}

// Sliding-window layers are not scaled.
TEST(HuggingFaceFamilies, RotaryParametersOfTwoKindsOfLayers) {
  const ModelConfig scaled =
      read("olmo3", {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}}).model;
  EXPECT_EQ(scaled.rope_scaling_factor, 2);
  EXPECT_EQ(scaled.rope_base_local, 5e5);
  // All layers are of one kind.
  const ModelConfig all_windows =
      read("gemma3_text",
           {{"layer_types", Json::array({"sliding_attention", "sliding_attention",
                                         "sliding_attention", "sliding_attention"})}})
          .model;
  EXPECT_EQ(all_windows.rope_base, 1e4);
  EXPECT_EQ(all_windows.rope_base_local, 0);
}

TEST(HuggingFaceFamilies, AreRefusedForWhatTheirGraphsLack) {
  const Json longrope = {{"type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", {2.0}}};
  const Json scaled_up = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};
  const Json lacks_length = {{"type", "longrope"},
                             {"short_factor", {1.0, 1.5, 2.0, 2.5}},
                             {"long_factor", {1.0, 3.0, 5.5, 7.0}},
                             {"original_max_position_embeddings", 16}};
  const Json scaled = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 1e4}};
  const std::tuple<const char*, Json, const char*> cases[] = {
      {"smollm3", {{"no_rope_layers", {1, 0}}}, "for each layer"},
      {"smollm3", {{"no_rope_layers", {1, 2, 0, 1}}}, "no_rope_layers"},
      {"smollm3", {{"attention_bias", true}}, "attention_bias and mlp_bias"},
      {"smollm3", {{"layer_types", types}, {"sliding_window", 8}}, "require use_sliding_window"},
      {"ministral3", Json::object(), "rope_parameters"},
      {"ministral3", {{"rope_parameters", {{"rope_type", "default"}}}}, "llama_4_scaling_beta"},
      {"phi3", {{"rope_scaling", longrope}}, "each of the 4 rotary frequencies"},
      {"phi3", {{"rope_scaling", lacks_length}}, "this class assumes 4096, and not 16"},
      {"phi3", {{"rope_scaling", yarn}}, "rope_scaling"},
      {"phi3", {{"resid_pdrop", 0.1}}, "resid_pdrop"},
      {"phi3",
       {{"partial_rotary_factor", 0.5}, {"rope_parameters", {{"partial_rotary_factor", 0.25}}}},
       "keep one of the two"},
      {"olmo3", {{"rope_theta", 1e4}}, "set both bases in rope_parameters"},
      {"gemma3_text",
       {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}},
       "only from rope_type"},
      {"olmo3", {{"rope_parameters", {{"rope_theta", 1e4}}}}, "per layer type"},
      {"olmo3",
       {{"rope_parameters",
         {{"full_attention", scaled},
          {"sliding_attention", scaled},
          {"chunked_attention", scaled}}}},
       "chunked_attention"},
      {"gemma3_text",
       {{"layer_types", types}, {"rope_parameters", {{"sliding_attention", scaled}}}},
       "scaled positions"},
      {"gemma3_text", {{"attn_logit_softcapping", 50.0}}, "attn_logit_softcapping"},
      {"gemma3_text", {{"use_bidirectional_attention", true}}, "use_bidirectional_attention"},
      {"exaone4", {{"sliding_window_pattern", "LLLG"}}, "sliding_window_pattern"},
      {"exaone4", {{"sliding_window", nullptr}, {"layer_types", types}}, "require sliding_window"},
      {"glm4", {{"sliding_window", 8}}, "has no sliding-window attention"},
      {"granite", {{"attention_multiplier", 0}}, "it must be above 0"},
      {"arcee", {{"hidden_act", "silu"}}, "only relu2 is supported"},
      {"glm4_moe", with_experts({{"n_group", 4}, {"num_experts_per_tok", 3}}), "topk_group"},
      {"qwen3_next", with_linear({{"layer_types", types}}), "must be linear_attention or"},
      {"qwen3_next", with_linear({{"layer_types", {"full_attention"}}}), "each of num_hidden"},
      {"qwen3_next", with_linear({{"attention_bias", true}}), "attention_bias"},
      {"qwen3_next", with_linear({{"linear_num_value_heads", 5}}), "linear_value_heads"},
      {"qwen3_next", with_linear({{"num_nextn_predict_layers", 2}}), "one module at most"},
      {"qwen3_next", with_linear({{"linear_gate", true}}), "linear_gate"},
      {"qwen3_5_text", {{"attn_output_gate", false}}, "attn_output_gate"},
      {"qwen3_5_text", {{"num_experts", 4}}, "num_experts is the number 4"},
      {"qwen3_5_moe_text",
       {{"moe_intermediate_size", 8}, {"mtp_use_dedicated_embeddings", true}},
       "mtp_use_dedicated_embeddings"},
      {"qwen3_5_moe_text", Json::object(), "moe_intermediate_size"},
      {"llama4_text", Json::object(), "intermediate_size_mlp"},
      {"llama4_text", with_four({{"attention_bias", true}}), "attention_bias"},
      {"llama4_text", with_four({{"router_jitter_noise", 0.1}}), "router_jitter_noise"},
      {"llama4_text", with_four({{"layer_types", types}}), "must name chunked_attention or full"},
      {"llama4_text",
       with_four({{"attention_chunk_size", nullptr},
                  {"layer_types",
                   {"chunked_attention", "full_attention", "full_attention", "full_attention"}}}),
       "layers with chunked attention require it"},
      {"llama4_text", with_four({{"moe_layers", 2}}), "must be a list of layers"},
      {"llama4_text", with_four({{"rope_scaling", scaled_up}}), "its factor on queries and keys"},
      {"granitemoehybrid", with_mamba({{"layer_types", types}}), "must be mamba or attention"},
      {"granitemoehybrid", with_mamba({{"layer_types", {"mamba"}}}), "each of num_hidden_layers"},
      {"granitemoehybrid", with_mamba({{"mamba_proj_bias", true}}), "mamba_proj_bias"},
      {"granitemoehybrid", with_mamba({{"mamba_n_heads", 5}}), "mamba_expand times hidden_size"},
      {"granitemoehybrid", with_mamba({{"time_step_limit", {0.0, 0.1}}}), "time_step_limit"},
      {"nemotron_h", Json::object(), "at least one layer must be an MLP or experts"},
      {"nemotron_h", {{"hybrid_override_pattern", "M*M*"}}, "at least one layer must be an MLP"},
      {"nemotron_h", {{"hybrid_override_pattern", "M-*X"}}, "a layer must be M, *, - or E"},
      {"nemotron_h", {{"hybrid_override_pattern", "M-*"}}, "the kinds of 3 layers are given"},
      {"nemotron_h", {{"layers_block_type", {"mlp", 1}}}, "must be linear_attention, full_att"},
      {"nemotron_h", {{"layers_block_type", "M-*-"}}, "must be linear_attention, full_attention"},
      {"nemotron_h", with_parts({{"moe_latent_size", 16}}), "projections around the experts"},
      {"nemotron_h", with_parts({{"moe_shared_expert_intermediate_size", 0}}), "from 1 to"},
      {"nemotron_h", with_parts({{"num_nextn_predict_layers", 1}}), "num_nextn_predict_layers"},
      {"nemotron_h", with_parts({{"use_bias", true}}), "use_bias"},
      {"nemotron_h", with_parts({{"mlp_bias", true}}), "mlp_bias"},
      {"nemotron_h", with_parts({{"mamba_proj_bias", true}}), "mamba_proj_bias"},
      {"nemotron_h", with_parts({{"attention_bias", true}}), "attention_bias"},
      {"nemotron_h", with_parts({{"tie_word_embeddings", true}}), "tie_word_embeddings"},
      {"nemotron_h", with_parts({{"mamba_hidden_act", "gelu"}}), "mamba_hidden_act"},
      {"nemotron_h", with_parts({{"attention_head_dim", 16}}), "attention_head_dim"},
      {"nemotron_h", with_parts({{"sliding_window", 8}}), "sliding_window"},
      {"nemotron_h", with_parts({{"time_step_limit", {0.0, 0.1}}}), "time_step_limit"},
      {"nemotron_h", with_parts({{"num_experts_per_tok", 1}}), "norm_topk_prob"},
      {"dots1", Json::object(), "n_routed_experts"},
      {"kimi_k2", Json::object(), "architectures"},
      {"kimi_k2",
       {{"architectures", Json::array({"DeepseekV3ForCausalLM"})}},
       "lacks 'rms_norm_eps'"},
  };
  for (const auto& [type, changes, message] : cases)
    EXPECT_THAT(refused(type, changes), HasSubstr(message)) << type << changes.dump();
}

// For an unknown class, the error lists what its keys require.
TEST(HuggingFaceFamilies, UnknownClassesAreRefusedWithWhatTheyAskFor) {
  EXPECT_THAT(refused("olmo_hybrid", {{"linear_num_value_heads", 32}}),
              AllOf(HasSubstr("linear_num_value_heads requires gated delta networks other than"),
                    HasSubstr("supported are gpt2")));
  EXPECT_THAT(refused("gemma3", {{"text_config", Json::object()}}),
              HasSubstr("text_config requires"));
  // A feature that some model has is not named as the one that is missing.
  for (const auto& [type, keys, message] :
       {std::tuple{"falcon_h1", Json{{"mamba_d_state", 256}, {"ssm_in_multiplier", 1.25}},
                   "ssm_in_multiplier requires attention and Mamba-2 side by side in one layer,"},
        {"bamba", Json{{"mamba_d_state", 256}},
         "mamba_d_state requires a state-space model other than Granite 4,"},
        {"mamba2", Json{{"state_size", 128}},
         "state_size requires layers that consist of a state-space mixer alone,"}})
    EXPECT_THAT(refused(type, keys), HasSubstr(message)) << type;
  EXPECT_THAT(refused("solar_open", Json::object()), HasSubstr("\"solar_open\"; supported are"));
}

TEST(HuggingFaceFamilies, AreNotWrittenAsWhatTheyAreNot) {
  ModelConfig model = read("gemma3_text", {{"layer_types", types}}).model;
  model.zero_centered_qk_norms = false;
  EXPECT_THAT(refusal_of([&] { huggingface_kind(model); }), HasSubstr("zero_centered_qk_norms"));
  model = read("granite", {{"residual_multiplier", 0.5}}).model;
  model.no_rope_layers = {1};
  EXPECT_THAT(refusal_of([&] { huggingface_kind(model); }), HasSubstr("cannot export"));
}

// Experts of Qwen3.5 are written as those of Qwen3-Next, which compute the same.
TEST(HuggingFaceFamilies, TwoClassesComputeTheSame) {
  const HuggingFaceModel five =
      read("qwen3_5_moe_text", {{"moe_intermediate_size", 20}, {"mtp_num_hidden_layers", 1}});
  const HuggingFaceKind* const kind = huggingface_kind(five.model);
  EXPECT_STREQ(kind->model_type, "qwen3_next");
  HuggingFaceModel next = five;
  next.kind = kind;
  next = parse_huggingface_config(huggingface_config_text(next, "float32"), "config.json");
  next.model.ffn_hidden_size = five.model.ffn_hidden_size;  // of no layer
  Config before, after;
  before.model = five.model;
  after.model = next.model;
  after.model.attention_scale = 0;
  after.model.moe.layers = before.model.moe.layers;
  EXPECT_EQ(to_toml(after), to_toml(before));
}

// Rows of our projections by key heads, and theirs by parts.
TEST(HuggingFaceFamilies, ProjectionsOfLinearAttentionAreInParts) {
  const HuggingFaceModel five = read("qwen3_5_text", {{"linear_num_key_heads", 2},
                                                      {"linear_num_value_heads", 4},
                                                      {"linear_key_head_dim", 3},
                                                      {"linear_value_head_dim", 5}});
  const TensorMapping mapping = huggingface_mapping(five, ExpertStorage::apart);
  const auto rows_of = [&](const std::string& ours) {
    std::vector<std::string> rows;
    for (const auto& link : mapping.links) {
      if (mapping.ours[link.ours].name != "layers.0.linear_attention." + ours) continue;
      const std::string name = mapping.theirs[link.theirs].name;
      rows.push_back(fmt::format("{}: {} +{} at {}", name.substr(name.find("in_proj")),
                                 link.theirs_row, link.rows, link.ours_row));
    }
    return rows;
  };
  EXPECT_THAT(
      rows_of("rates.weight"),
      testing::UnorderedElementsAre("in_proj_b.weight: 0 +2 at 0", "in_proj_a.weight: 0 +2 at 2",
                                    "in_proj_b.weight: 2 +2 at 4", "in_proj_a.weight: 2 +2 at 6"));
  EXPECT_THAT(rows_of("qkv.weight"),
              testing::UnorderedElementsAre(
                  "in_proj_qkv.weight: 0 +3 at 0", "in_proj_qkv.weight: 6 +3 at 3",
                  "in_proj_qkv.weight: 12 +10 at 6", "in_proj_qkv.weight: 3 +3 at 16",
                  "in_proj_qkv.weight: 9 +3 at 19", "in_proj_qkv.weight: 22 +10 at 22"));
  EXPECT_THAT(rows_of("gate.weight"),
              testing::UnorderedElementsAre("in_proj_z.weight: 0 +20 at 0"));
}

// They rotate adjacent rows: row 1 of our head is the first element of their second pair.
TEST(HuggingFaceFamilies, NeighborsBecomeHalves) {
  const HuggingFaceModel glm = read("glm4");
  const TensorMapping mapping = huggingface_mapping(glm, ExpertStorage::apart);
  std::vector<std::int64_t> theirs(8, -1);
  for (const auto& link : mapping.links) {
    if (mapping.ours[link.ours].name != "layers.0.attention.qkv.weight") continue;
    if (mapping.theirs[link.theirs].name != "model.layers.0.self_attn.q_proj.weight") continue;
    for (std::int64_t r = 0; r < link.rows; ++r)
      if (link.ours_row + r < 8)
        theirs[static_cast<std::size_t>(link.ours_row + r)] = link.theirs_row + r;
  }
  EXPECT_EQ(theirs, (std::vector<std::int64_t>{0, 2, 1, 3, 4, 5, 6, 7}));  // half is rotated
}

}  // namespace
}  // namespace trireme
