// Tests of config.json for models beyond plain GPT-2, Llama and BERT: Bloom, relatives of Llama,
// with windows and experts, and DeepSeek.
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

using testing::HasSubstr;

// Returns a config.json of a relative of Llama, with additional keys.
std::string relative_of_llama(const std::string& type, const std::string& more) {
  return R"({"model_type": ")" + type + R"(", "vocab_size": 40, "hidden_size": 16,
      "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 32)" +
         (more.empty() ? "" : ", " + more) + "}";
}

TEST(HuggingFaceConfig, RelativesOfLlamaAreRead) {
  const auto read = [](const std::string& type, const std::string& more = "") {
    return parse_huggingface_config(relative_of_llama(type, more), "config.json");
  };
  const HuggingFaceModel qwen2 =
      read("qwen2", R"("sliding_window": 8, "use_sliding_window": false)");
  EXPECT_EQ(qwen2.kind, &qwen2_kind);
  EXPECT_TRUE(qwen2.model.qkv_bias);
  EXPECT_FALSE(qwen2.model.bias);
  const HuggingFaceModel qwen3 = read("qwen3", R"("head_dim": 8, "attention_bias": false)");
  EXPECT_EQ(qwen3.kind, &qwen3_kind);
  EXPECT_TRUE(qwen3.model.qk_norm);
  EXPECT_EQ(qwen3.model.head_dim, 8);
  EXPECT_EQ(read("mistral", R"("sliding_window": null)").kind, &llama_kind);
  const HuggingFaceModel mistral = read("mistral", R"("sliding_window": 16)");
  EXPECT_EQ(mistral.kind, &mistral_kind);
  EXPECT_EQ(mistral.model.attention_window, 16);
  const HuggingFaceModel olmo2 = read("olmo2");
  EXPECT_EQ(olmo2.kind, &olmo2_kind);
  EXPECT_EQ(olmo2.model.norm_placement, NormPlacement::output);
  EXPECT_EQ(olmo2.model.qk_norm_over, NormSpan::all_heads);
  const HuggingFaceModel qwen2_window =
      read("qwen2", R"("sliding_window": 8, "use_sliding_window": true, "max_window_layers": 0)");
  EXPECT_EQ(qwen2_window.model.attention_window, 8);
  const HuggingFaceModel gemma =
      read("gemma", R"("hidden_act": "gelu_pytorch_tanh", "head_dim": 8)");
  EXPECT_EQ(gemma.kind, &gemma_kind);
  EXPECT_EQ(gemma.model.activation, MlpActivation::geglu);
  EXPECT_TRUE(gemma.model.tie_embeddings);
  EXPECT_EQ(huggingface_kind(gemma.model), &gemma_kind);
  const HuggingFaceModel gemma2 = read(
      "gemma2", R"("head_dim": 8, "query_pre_attn_scalar": 144, "final_logit_softcapping": null)");
  EXPECT_EQ(gemma2.kind, &gemma2_kind);
  EXPECT_EQ(gemma2.model.norm_placement, NormPlacement::both);
  EXPECT_EQ(gemma2.model.attention_soft_cap, 50);
  EXPECT_EQ(gemma2.model.logit_soft_cap, 0);
  EXPECT_EQ(gemma2.model.attention_scale, 1.0 / 12);
  EXPECT_EQ(gemma2.model.attention_window, 4096);
  EXPECT_EQ(gemma2.model.window_layers, std::vector<std::int64_t>{0});
  EXPECT_EQ(huggingface_kind(gemma2.model), &gemma2_kind);
  const HuggingFaceModel no_windows = read(
      "gemma2",
      R"("query_pre_attn_scalar": 4, "head_dim": 4, "layer_types": ["full_attention", "full_attention"])");
  EXPECT_EQ(no_windows.model.attention_window, 0);
  EXPECT_EQ(no_windows.model.attention_scale, 0);
  for (const HuggingFaceModel& first :
       {qwen2, qwen3, mistral, olmo2, qwen2_window, gemma, gemma2, no_windows}) {
    const std::string text = huggingface_config_text(first, "float32");
    const HuggingFaceModel again = parse_huggingface_config(text, "config.json");
    EXPECT_EQ(again.kind, first.kind);
    Config before, after;
    before.model = first.model;
    after.model = again.model;
    EXPECT_EQ(to_toml(after), to_toml(before));
  }
}

TEST(HuggingFaceConfig, BloomGoesThereAndBack) {
  // The key names of older files, as in published models.
  const HuggingFaceModel bloom = parse_huggingface_config(
      R"({"model_type": "bloom", "vocab_size": 64, "n_embed": 32, "n_layer": 2,
          "num_attention_heads": 4, "seq_length": 48, "pretraining_tp": 1})",
      "config.json");
  EXPECT_EQ(bloom.model.position, PositionEncoding::alibi);
  EXPECT_TRUE(bloom.model.embedding_norm);
  EXPECT_EQ(bloom.model.ffn_hidden_size, 128);
  EXPECT_EQ(bloom.model.max_positions, 48);
  EXPECT_EQ(huggingface_kind(bloom.model), &bloom_kind);
  const HuggingFaceModel again =
      parse_huggingface_config(huggingface_config_text(bloom, "float32"), "config.json");
  Config before, after;
  before.model = bloom.model;
  after.model = again.model;
  EXPECT_EQ(to_toml(after), to_toml(before));
  ModelConfig wide = bloom.model;
  wide.ffn_hidden_size = 96;
  EXPECT_THROW(huggingface_kind(wide), Error);
}

// Returns the error for a relative of Llama with these keys, or "accepted".
std::string relative_refusal(const std::string& type, const std::string& more) {
  try {
    parse_huggingface_config(relative_of_llama(type, more), "config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return "accepted";
}

TEST(HuggingFaceConfig, WindowsOfSomeLayers) {
  using Layers = std::vector<std::int64_t>;
  const std::string on = R"("sliding_window": 16, "use_sliding_window": true)";
  const auto read = [&](const std::string& type, const std::string& more) {
    const HuggingFaceModel first = parse_huggingface_config(
        relative_of_llama(type, R"("num_hidden_layers": 3, )" + on + ", " + more), "config.json");
    const HuggingFaceModel again =
        parse_huggingface_config(huggingface_config_text(first, "float32"), "config.json");
    EXPECT_EQ(again.model.attention_window, first.model.attention_window);
    EXPECT_EQ(again.model.window_layers, first.model.window_layers);
    return first.model;
  };
  const auto types = [](const std::string& three) { return R"("layer_types": [)" + three + "]"; };
  const std::string with = R"("sliding_attention")", without = R"("full_attention")";
  for (const std::string type : {"qwen2", "qwen3"}) {
    EXPECT_EQ(read(type, R"("max_window_layers": 28)").attention_window, 0);
    EXPECT_EQ(read(type, R"("max_window_layers": 1)").window_layers, (Layers{1, 2}));
    EXPECT_EQ(read(type, R"("max_window_layers": 0)").attention_window, 16);
    EXPECT_TRUE(read(type, R"("max_window_layers": 0)").window_layers.empty());
    EXPECT_EQ(read(type, types(with + "," + without + "," + with)).window_layers, (Layers{0, 2}));
    EXPECT_TRUE(read(type, types(with + "," + with + "," + with)).window_layers.empty());
    EXPECT_EQ(read(type, types(without + "," + without + "," + without)).attention_window, 0);
    const auto refused = [&](const std::string& more) { return relative_refusal(type, more); };
    EXPECT_THAT(refused(on + ", " + types(without)), HasSubstr("for each layer"));
    EXPECT_THAT(refused(on + ", " + types(R"("chunked_attention", )" + without)),
                HasSubstr("for each layer"));
    EXPECT_THAT(refused(types(with + "," + without)), HasSubstr("require use_sliding_window"));
  }
  // Every other layer before max_window_layers, or those listed in layer_types.
  const std::string experts = R"(, "num_experts": 4, "moe_intermediate_size": 8,
      "shared_expert_intermediate_size": 8)";
  EXPECT_EQ(read("qwen2_moe", R"("max_window_layers": 3)" + experts).window_layers, (Layers{0, 2}));
  EXPECT_EQ(read("qwen2_moe", R"("max_window_layers": 2)" + experts).window_layers, (Layers{0}));
  EXPECT_EQ(read("qwen2_moe", R"("max_window_layers": 0)" + experts).attention_window, 0);
  EXPECT_EQ(read("qwen2_moe", types(without + "," + with + "," + with) + experts).window_layers,
            (Layers{1, 2}));
  for (const char* type : {"llama", "olmo2", "olmoe"}) {
    EXPECT_THAT(relative_refusal(type, R"("sliding_window": 16)"),
                HasSubstr("sliding_window is the number 16"))
        << type;
  }
}

TEST(HuggingFaceConfig, RelativesAreRefusedForWhatTheirGraphsLack) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"qwen3", R"("attention_bias": true)", "attention_bias is true"},
      {"qwen3_moe", R"("attention_bias": true)", "attention_bias is true"},
      {"olmo2", R"("attention_bias": true)", "attention_bias is true"},
      {"olmoe", R"("attention_bias": true)", "attention_bias is true"},
      {"olmoe", R"("clip_qkv": 8.0)", "clip_qkv is the number 8"},
      {"olmoe", R"("head_dim": 8)", "head_dim is the number 8"},
      {"qwen3_moe", R"("decoder_sparse_step": 3)",
       "decoder_sparse_step is the number 3; with num_hidden_layers"},
      {"qwen3_moe", R"("mlp_only_layers": 1)", "it must be a list of layers"},
      {"qwen3_moe", R"("num_experts": 4, "num_local_experts": 8)", "another name for num_experts"},
      {"qwen3_moe", R"("num_experts": 4, "num_experts_per_tok": 5)", "moe.top_k = 5"},
      {"mixtral", R"("router_jitter_noise": 0.1)", "router_jitter_noise is the number 0.1"},
      {"llama", R"("quantization_config": {"bits": 4})", "quantized weights are not supported"},
      {"llama", R"("pruned_heads": {"0": [1]})", "no heads may be pruned"},
      {"qwen3", R"("rope_parameters": {"full_attention": {"rope_theta": 5.0}})",
       "for only some layers"},
      {"llama", R"("hidden_act": "gelu")", "only silu is supported"},
      {"gemma", R"("hidden_act": "gelu", "hidden_activation": "gelu")",
       "only gelu_pytorch_tanh is supported"},
      {"gemma", R"("hidden_act": "relu")", "only gelu_pytorch_tanh is supported"},
      {"gemma", R"("hidden_act": "gelu_pytorch_tanh", "use_bidirectional_attention": true)",
       "use_bidirectional_attention is true"},
      {"t5", "", "model_type is the string \"t5\""},
      {"deepseek_v2", "", "model_type is the string \"deepseek_v2\""},
      {"deepseek_v3", "", "num_key_value_heads is the number 2"},
      {"gemma2", R"("hidden_activation": "gelu")", "only gelu_pytorch_tanh is supported"},
      {"gemma2", R"("sliding_window": null)", "layers with sliding-window attention require it"},
      {"gemma2", R"("query_pre_attn_scalar": 0.5)", "it must be a number of at least 1"},
      {"gemma2", R"("query_pre_attn_scalar": "144")", "it must be a number of at least 1"},
      {"gemma2", R"("layer_types": ["full_attention"])", "for each layer"},
      {"gemma3", "", "model_type is the string \"gemma3\""},
  };
  for (const auto& [type, more, message] : cases)
    EXPECT_THAT(relative_refusal(type, more), HasSubstr(message)) << type << " " << more;
}

// This file can be read, but is not written: transformers rejects it.
TEST(HuggingFaceConfig, ScoresOfGemma2HaveAnyScale) {
  const ModelConfig model =
      parse_huggingface_config(relative_of_llama("gemma2", R"("query_pre_attn_scalar": 144.5)"),
                               "config.json")
          .model;
  EXPECT_EQ(model.attention_scale, 1 / std::sqrt(144.5));
  try {
    huggingface_kind(model);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("attention_scale"));
  }
}

// Returns a config.json of DeepSeek-V3 with these changes.
std::string deepseek(const nlohmann::json& changes) {
  nlohmann::json json = {{"model_type", "deepseek_v3"},
                         {"vocab_size", 40},
                         {"hidden_size", 16},
                         {"intermediate_size", 24},
                         {"num_hidden_layers", 3},
                         {"num_attention_heads", 2},
                         {"num_key_value_heads", 2},
                         {"max_position_embeddings", 64},
                         {"q_lora_rank", 12},
                         {"kv_lora_rank", 8},
                         {"qk_nope_head_dim", 6},
                         {"qk_rope_head_dim", 4},
                         {"v_head_dim", 6},
                         {"head_dim", 4},
                         {"n_routed_experts", 8},
                         {"num_experts_per_tok", 4},
                         {"n_group", 4},
                         {"topk_group", 2},
                         {"moe_intermediate_size", 10},
                         {"n_shared_experts", 2},
                         {"first_k_dense_replace", 1}};
  json.update(changes);
  return json.dump();
}

TEST(HuggingFaceConfig, DeepSeekGoesThereAndBack) {
  const nlohmann::json yarn = {{"rope_type", "yarn"},
                               {"factor", 40.0},
                               {"original_max_position_embeddings", 16},
                               {"mscale", 1.0},
                               {"mscale_all_dim", 0.7}};
  const nlohmann::json cases[] = {
      nlohmann::json::object(),
      {{"q_lora_rank", nullptr}},
      {{"rms_norm_eps", 1e-5}},
      {{"rope_scaling", yarn}},
      {{"first_k_dense_replace", 3}},
      {{"seq_aux", false}, {"aux_loss_alpha", 0.01}},
      {{"n_group", 1}, {"topk_group", 1}},
      {{"num_nextn_predict_layers", 2}},
      {{"n_group", 1}, {"topk_group", 1}, {"num_experts_per_tok", 1}, {"norm_topk_prob", false}}};
  for (const nlohmann::json& changes : cases) {
    const HuggingFaceModel first = parse_huggingface_config(deepseek(changes), "config.json");
    EXPECT_EQ(first.kind, &deepseek_v3_kind);
    EXPECT_EQ(huggingface_kind(first.model), first.kind);
    EXPECT_EQ(first.model.head_dim, 10);
    const HuggingFaceModel again =
        parse_huggingface_config(huggingface_config_text(first, "float32"), "config.json");
    EXPECT_NEAR(again.model.attention_scale, first.model.attention_scale, 1e-12);
    EXPECT_NEAR(again.model.rope_attention_factor, first.model.rope_attention_factor, 1e-12);
    Config before, after;
    before.model = first.model;
    after.model = again.model;
    after.model.attention_scale = before.model.attention_scale;
    after.model.rope_attention_factor = before.model.rope_attention_factor;
    EXPECT_EQ(to_toml(after), to_toml(before)) << changes.dump();
  }
  const ModelConfig wide =
      parse_huggingface_config(deepseek({{"rms_norm_eps", 1e-5}}), "config.json").model;
  EXPECT_EQ(wide.norm_eps, 1e-5);
  EXPECT_EQ(wide.latent_norm_eps, 1e-6);
  ModelConfig alike = wide;
  alike.latent_norm_eps = 0;
  EXPECT_THAT(refusal_of([&] { huggingface_kind(alike); }), HasSubstr("norm_eps"));
  const ModelConfig scaled =
      parse_huggingface_config(deepseek({{"rope_scaling", yarn}}), "config.json").model;
  const double all = 0.07 * std::log(40.0) + 1;
  EXPECT_NEAR(scaled.attention_scale, all * all / std::sqrt(10.0), 1e-15);
  EXPECT_NEAR(scaled.rope_attention_factor, (0.1 * std::log(40.0) + 1) / all, 1e-15);
  ModelConfig small = scaled;
  small.rope_attention_factor = 1 / all;  // an mscale of 0, which counts as absent there
  EXPECT_THAT(refusal_of([&] { huggingface_kind(small); }), HasSubstr("rope_attention_factor"));
  EXPECT_EQ(scaled.moe.aux_loss, BalanceScope::sequence);
  const ExpertConfig& moe = scaled.moe;
  EXPECT_EQ(moe.first_layer, 1);
  EXPECT_EQ(moe.shared_ffn_hidden_size, 20);
  EXPECT_EQ(moe.score, RouterScore::sigmoid);
  EXPECT_TRUE(moe.expert_bias);
  EXPECT_EQ(moe.scaling_factor, 2.5);
  EXPECT_TRUE(moe.normalize_weights);
  EXPECT_FALSE(parse_huggingface_config(deepseek({{"norm_topk_prob", nullptr}}), "config.json")
                   .model.moe.normalize_weights);
}

TEST(HuggingFaceConfig, DeepSeekIsRefusedForWhatIsNotTheSame) {
  const std::pair<nlohmann::json, const char*> cases[] = {
      {{{"rope_interleave", false}}, "rope_interleave is false"},
      {{{"rope_interleave", nullptr}}, "rope_interleave is null"},
      {{{"head_dim", 10}}, "head_dim is the number 10"},
      {{{"attention_bias", true}}, "attention_bias is true"},
      {{{"num_key_value_heads", 1}}, "num_key_value_heads is the number 1"},
      {{{"num_experts_per_tok", 2}}, "that quotient must be 2"},
      {{{"num_experts_per_tok", 1}, {"n_group", 1}, {"topk_group", 1}}, "it must be false"},
      {{{"v_head_dim", 12}}, "model.v_head_dim = 12"},
      {{{"scoring_func", "softmax"}}, "scoring_func is the string"},
      {{{"num_experts_per_tok", 1}, {"n_group", 1}, {"topk_group", 1}}, "norm_topk_prob is absent"},
      {{{"sliding_window", 16}}, "has no sliding-window attention"},
      {{{"num_nextn_predict_layers", 9}}, "num_nextn_predict_layers"},
      {{{"num_nextn_predict_layers", 1}, {"num_mtp_layers", 0}}, "num_mtp_layers"},
      {{{"num_nextn_predict_layers", 1}, {"first_k_dense_replace", 3}}, "which is dense"},
  };
  for (const auto& [changes, message] : cases) {
    EXPECT_THAT([&] { parse_huggingface_config(deepseek(changes), "config.json"); },
                testing::ThrowsMessage<Error>(HasSubstr(message)))
        << changes.dump();
  }
}

TEST(HuggingFaceConfig, ModulesOfMultiTokenPrediction) {
  HuggingFaceModel model =
      parse_huggingface_config(deepseek({{"num_nextn_predict_layers", 1}}), "config.json");
  EXPECT_EQ(model.model.mtp_layers, 1);
  ModelConfig llama = parse_huggingface_config(relative_of_llama("llama", ""), "config.json").model;
  llama.mtp_layers = 1;
  EXPECT_THAT(refusal_of([&] { huggingface_kind(llama); }), HasSubstr("mtp_layers"));
  EXPECT_EQ(fit_to_names(model, {"model.layers.3.eh_proj.weight"}), "");
  EXPECT_EQ(tied_huggingface_tensor(model, "model.layers.3.embed_tokens.weight"),
            "model.embed_tokens.weight");
  EXPECT_EQ(tied_huggingface_tensor(model, "model.layers.3.shared_head.head.weight"),
            "lm_head.weight");
  // transformers saves config.json with their number, and not the modules.
  EXPECT_THAT(fit_to_names(model, {"model.embed_tokens.weight"}),
              HasSubstr("no multi-token prediction modules"));
  EXPECT_EQ(model.model.mtp_layers, 0);
}

// Each class of transformers has defaults of its own, which a short config.json relies on.
TEST(HuggingFaceConfig, AbsentKeysMeanWhatTheClassAssumes) {
  const auto read = [](const char* type, const char* without, const char* more = "") {
    auto json = nlohmann::json::parse(relative_of_llama(type, more));
    json["num_attention_heads"] = 32;
    json["num_key_value_heads"] = 8;
    json["hidden_size"] = 64;
    json.erase(without);
    return parse_huggingface_config(json.dump(), "config.json").model;
  };
  EXPECT_EQ(read("mistral", "sliding_window").attention_window, 4096);
  EXPECT_EQ(read("mistral", "num_key_value_heads").num_kv_heads, 8);
  EXPECT_EQ(read("mistral", "max_position_embeddings").max_positions, 131072);
  EXPECT_EQ(read("llama", "num_key_value_heads").num_kv_heads, 32);
  EXPECT_EQ(read("qwen3", "head_dim").head_dim, 128);
  EXPECT_EQ(read("qwen3_moe", "num_key_value_heads", R"("num_experts": 8)").num_kv_heads, 4);
  EXPECT_EQ(read("qwen3_moe", "head_dim").moe.num_experts, 128);
  EXPECT_EQ(read("mixtral", "rope_theta").rope_base, 1e6);
  EXPECT_EQ(read("mixtral", "rms_norm_eps").norm_eps, 1e-5);
  EXPECT_EQ(read("olmo2", "rms_norm_eps").norm_eps, 1e-5);
  EXPECT_EQ(read("qwen2", "rms_norm_eps").norm_eps, 1e-6);
  EXPECT_EQ(read("olmoe", "norm_topk_prob").moe.top_k, 8);
  EXPECT_FALSE(read("olmoe", "norm_topk_prob").moe.normalize_weights);
}

TEST(HuggingFaceConfig, RelativesWithExpertsGoThereAndBack) {
  const std::pair<const char*, const char*> cases[] = {
      {"mixtral", R"("num_local_experts": 4, "sliding_window": 8)"},
      {"qwen2_moe", R"("num_experts": 8, "decoder_sparse_step": 2)"},
      {"qwen3_moe", R"("num_local_experts": 16, "head_dim": 8, "norm_topk_prob": true)"},
      {"qwen3_moe", R"("num_experts": 16, "mlp_only_layers": [0])"},
      {"olmoe", R"("num_experts": 16, "norm_topk_prob": true, "clip_qkv": null)"},
  };
  for (const auto& [type, more] : cases) {
    const HuggingFaceModel first =
        parse_huggingface_config(relative_of_llama(type, more), "config.json");
    EXPECT_EQ(huggingface_kind(first.model), first.kind);
    EXPECT_STREQ(first.kind->model_type, type);
    const std::string text = huggingface_config_text(first, "float32");
    const HuggingFaceModel again = parse_huggingface_config(text, "config.json");
    EXPECT_EQ(again.kind, first.kind);
    Config before, after;
    before.model = first.model;
    after.model = again.model;
    EXPECT_EQ(to_toml(after), to_toml(before)) << type;
  }
}

}  // namespace
}  // namespace trireme
