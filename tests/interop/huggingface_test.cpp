// Hugging Face folders: the tables name exactly the tensors that the reference implementation
// writes; config.json there and back; what does not fit is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <cmath>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "interop/huggingface_folder.h"
#include "interop/huggingface_names.h"
#include "interop/huggingface_tokenizer.h"
#include "interop/safetensors.h"
#include "interop/safetensors_writer.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

fs::path reference(const std::string& name) {
  return fs::path(TRIREME_TEST_DATA) / "hf" / name;
}

const std::vector<std::string> reference_models{
    "gpt2", "llama", "llama_tied", "llama3_rope", "linear_rope", "bert", "megatron_bert"};

TEST(HuggingFaceNames, AreThoseOfTheReferenceImplementation) {
  for (const std::string& name : reference_models) {
    const TensorMapping mapping = huggingface_mapping(read_huggingface_config(reference(name)));
    const SafetensorsFile file(reference(name) / "model.safetensors");
    std::map<std::string, std::vector<std::int64_t>> ours, theirs;
    for (const NamedTensor& tensor : mapping.theirs) {
      ours[tensor.name] = {tensor.shape.begin(), tensor.shape.end()};
    }
    for (const SafetensorsEntry& entry : file.tensors()) theirs[entry.name] = entry.shape;
    EXPECT_EQ(ours, theirs) << name;
  }
}

TEST(HuggingFaceNames, OfOursAreIndependentOfTheKind) {
  const TensorMapping mapping = huggingface_mapping(read_huggingface_config(reference("llama")));
  std::map<std::string, Shape> ours;
  for (const NamedTensor& tensor : mapping.ours) ours[tensor.name] = tensor.shape;
  // 4 heads and 2 key/value heads of 8: 2 groups of (2 queries + key + value).
  EXPECT_EQ(ours.at("layers.1.attention.qkv.weight"), (Shape{64, 16}));
  EXPECT_EQ(ours.at("layers.1.mlp.up.weight"), (Shape{48, 16}));
  EXPECT_EQ(ours.at("layers.1.mlp.down.weight"), (Shape{16, 24}));
  EXPECT_EQ(ours.at("head.weight"), (Shape{61, 16}));
  EXPECT_EQ(ours.size(), 15u);
}

TEST(HuggingFaceNames, AcceptOlderFiles) {
  using Kind = HuggingFaceKind;
  EXPECT_EQ(canonical_huggingface_name(Kind::gpt2, "h.0.ln_1.bias"), "transformer.h.0.ln_1.bias");
  EXPECT_EQ(canonical_huggingface_name(Kind::gpt2, "lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(canonical_huggingface_name(Kind::bert, "bert.embeddings.LayerNorm.gamma"),
            "bert.embeddings.LayerNorm.weight");
  EXPECT_EQ(canonical_huggingface_name(Kind::bert, "cls.predictions.transform.LayerNorm.beta"),
            "cls.predictions.transform.LayerNorm.bias");
  EXPECT_TRUE(is_huggingface_buffer(Kind::gpt2, "transformer.h.0.attn.bias"));
  EXPECT_FALSE(is_huggingface_buffer(Kind::gpt2, "lm_head.weight"));
  EXPECT_FALSE(is_huggingface_buffer(Kind::gpt2, "transformer.h.0.attn.c_attn.bias"));
}

TEST(HuggingFaceNames, CopiesOfTiedWeightsAreKnown) {
  const HuggingFaceModel gpt2 = read_huggingface_config(reference("gpt2"));
  EXPECT_EQ(tied_huggingface_tensor(gpt2, "lm_head.weight"), "transformer.wte.weight");
  EXPECT_EQ(tied_huggingface_tensor(gpt2, "transformer.wpe.weight"), "");
  const HuggingFaceModel llama = read_huggingface_config(reference("llama"));
  EXPECT_EQ(tied_huggingface_tensor(llama, "lm_head.weight"), "");
  HuggingFaceModel bert = read_huggingface_config(reference("bert"));
  EXPECT_EQ(tied_huggingface_tensor(bert, "cls.predictions.decoder.bias"), "cls.predictions.bias");
  bert.model.tie_embeddings = false;
  EXPECT_EQ(tied_huggingface_tensor(bert, "cls.predictions.bias"), "cls.predictions.decoder.bias");
  const TensorMapping untied = huggingface_mapping(bert);
  EXPECT_TRUE(std::ranges::any_of(
      untied.ours, [](const NamedTensor& tensor) { return tensor.name == "head.weight"; }));
}

TEST(HuggingFaceConfig, IsRead) {
  const HuggingFaceModel llama = read_huggingface_config(reference("llama"));
  EXPECT_EQ(llama.kind, HuggingFaceKind::llama);
  EXPECT_EQ(llama.model.num_kv_heads, 2);
  EXPECT_EQ(llama.model.head_dim, 8);
  EXPECT_EQ(llama.model.rope_base, 5000);
  EXPECT_EQ(llama.model.norm_eps, 1e-5);
  EXPECT_EQ(llama.tokens.bos, 1);
  EXPECT_EQ(llama.model.activation, "swiglu");
  EXPECT_FALSE(llama.model.tie_embeddings);
  EXPECT_FALSE(llama.model.bias);
  const HuggingFaceModel tied = read_huggingface_config(reference("llama_tied"));
  EXPECT_TRUE(tied.model.tie_embeddings);
  EXPECT_TRUE(tied.model.qkv_bias);
  const HuggingFaceModel gpt2 = read_huggingface_config(reference("gpt2"));
  EXPECT_EQ(gpt2.model.activation, "gelu_tanh");
  EXPECT_EQ(gpt2.model.ffn_hidden_size, 64);
  EXPECT_EQ(gpt2.model.max_positions, 24);
}

TEST(HuggingFaceConfig, GoesThereAndBack) {
  for (const std::string& name : reference_models) {
    HuggingFaceModel first = read_huggingface_config(reference(name));
    first.tokens = {1, 2, -1, {}};
    const std::string text = huggingface_config_text(first, "float32");
    const HuggingFaceModel again = parse_huggingface_config(text, "config.json");
    EXPECT_EQ(again.kind, first.kind);
    EXPECT_EQ(again.tokens.eos, 2);
    EXPECT_EQ(again.tokens.pad, -1);
    Config before, after;
    before.model = first.model;
    after.model = again.model;
    EXPECT_EQ(to_toml(after), to_toml(before));
    const auto json = nlohmann::json::parse(text);
    EXPECT_EQ(json.at("torch_dtype"), "float32");
    EXPECT_EQ(json.at("eos_token_id"), 2);
    EXPECT_TRUE(json.at("pad_token_id").is_null());
    EXPECT_TRUE(json.contains("tie_word_embeddings"));
    EXPECT_EQ(json.contains("rope_theta"), first.kind == HuggingFaceKind::llama);
  }
}

// A config.json of a relative of Llama, with further keys.
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
  EXPECT_EQ(qwen2.kind, HuggingFaceKind::qwen2);
  EXPECT_TRUE(qwen2.model.qkv_bias);
  EXPECT_FALSE(qwen2.model.bias);
  const HuggingFaceModel qwen3 = read("qwen3", R"("head_dim": 8, "attention_bias": false)");
  EXPECT_EQ(qwen3.kind, HuggingFaceKind::qwen3);
  EXPECT_TRUE(qwen3.model.qk_norm);
  EXPECT_EQ(qwen3.model.head_dim, 8);
  EXPECT_EQ(read("mistral", R"("sliding_window": null)").kind, HuggingFaceKind::llama);
  const HuggingFaceModel mistral = read("mistral", R"("sliding_window": 16)");
  EXPECT_EQ(mistral.kind, HuggingFaceKind::mistral);
  EXPECT_EQ(mistral.model.attention_window, 16);
  const HuggingFaceModel olmo2 = read("olmo2");
  EXPECT_EQ(olmo2.kind, HuggingFaceKind::olmo2);
  EXPECT_EQ(olmo2.model.norm_placement, "output");
  EXPECT_EQ(olmo2.model.qk_norm_over, "all_heads");
  const HuggingFaceModel qwen2_window =
      read("qwen2", R"("sliding_window": 8, "use_sliding_window": true, "max_window_layers": 0)");
  EXPECT_EQ(qwen2_window.model.attention_window, 8);
  const HuggingFaceModel gemma =
      read("gemma", R"("hidden_act": "gelu_pytorch_tanh", "head_dim": 8)");
  EXPECT_EQ(gemma.kind, HuggingFaceKind::gemma);
  EXPECT_EQ(gemma.model.activation, "geglu");
  EXPECT_TRUE(gemma.model.tie_embeddings);
  EXPECT_EQ(huggingface_kind(gemma.model), HuggingFaceKind::gemma);
  for (const HuggingFaceModel& first : {qwen2, qwen3, mistral, olmo2, qwen2_window, gemma}) {
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
  // The names of older files, as published models have them.
  const HuggingFaceModel bloom = parse_huggingface_config(
      R"({"model_type": "bloom", "vocab_size": 64, "n_embed": 32, "n_layer": 2,
          "num_attention_heads": 4, "seq_length": 48, "pretraining_tp": 1})",
      "config.json");
  EXPECT_EQ(bloom.model.position, "alibi");
  EXPECT_TRUE(bloom.model.embedding_norm);
  EXPECT_EQ(bloom.model.ffn_hidden_size, 128);
  EXPECT_EQ(bloom.model.max_positions, 48);
  EXPECT_EQ(huggingface_kind(bloom.model), HuggingFaceKind::bloom);
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

// What a relative of Llama with these keys is refused for; "accepted".
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
    EXPECT_THAT(refused(types(with + "," + without)), HasSubstr("need use_sliding_window"));
  }
  EXPECT_THAT(relative_refusal("qwen2_moe", on), HasSubstr("use_sliding_window is true"));
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
      {"qwen3_moe", R"("decoder_sparse_step": 3)", "leaves no layer with experts"},
      {"qwen3_moe", R"("mlp_only_layers": 1)", "it must be a list of layers"},
      {"qwen3_moe", R"("num_experts": 4, "num_local_experts": 8)", "same as num_experts"},
      {"qwen3_moe", R"("num_experts": 4, "num_experts_per_tok": 5)", "moe.top_k = 5"},
      {"mixtral", R"("router_jitter_noise": 0.1)", "router_jitter_noise is the number 0.1"},
      {"llama", R"("quantization_config": {"bits": 4})", "quantized weights are not read"},
      {"llama", R"("pruned_heads": {"0": [1]})", "all heads must be there"},
      {"qwen3", R"("rope_parameters": {"full_attention": {"rope_theta": 5.0}})",
       "of some layers alone"},
      {"llama",
       R"("original_max_position_embeddings": 8, "rope_scaling": {"rope_type": "yarn", "factor": 4,
       "original_max_position_embeddings": 16})",
       "original_max_position_embeddings is the number 8"},
      {"llama", R"("hidden_act": "gelu")", "only silu is supported"},
      {"gemma", R"("hidden_act": "gelu")", "only gelu_pytorch_tanh is supported"},
      {"gemma", R"("hidden_act": "gelu_pytorch_tanh", "use_bidirectional_attention": true)",
       "use_bidirectional_attention is true"},
      {"t5", "", "model_type is the string \"t5\""},
      {"deepseek_v2", "", "model_type is the string \"deepseek_v2\""},
      {"deepseek_v3", "", "num_key_value_heads is the number 2"},
      {"gemma2", "", "model_type is the string \"gemma2\""},
  };
  for (const auto& [type, more, message] : cases)
    EXPECT_THAT(relative_refusal(type, more), HasSubstr(message)) << type << " " << more;
}

// A config.json of DeepSeek-V3 with other keys than these.
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
  const nlohmann::json cases[] = {nlohmann::json::object(),
                                  {{"q_lora_rank", nullptr}},
                                  {{"rope_scaling", yarn}},
                                  {{"first_k_dense_replace", 3}},
                                  {{"seq_aux", false}, {"aux_loss_alpha", 0.01}},
                                  {{"n_group", 1}, {"topk_group", 1}}};
  for (const nlohmann::json& changes : cases) {
    const HuggingFaceModel first = parse_huggingface_config(deepseek(changes), "config.json");
    EXPECT_EQ(first.kind, HuggingFaceKind::deepseek_v3);
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
  const ModelConfig scaled =
      parse_huggingface_config(deepseek({{"rope_scaling", yarn}}), "config.json").model;
  const double all = 0.07 * std::log(40.0) + 1;
  EXPECT_NEAR(scaled.attention_scale, all * all / std::sqrt(10.0), 1e-15);
  EXPECT_NEAR(scaled.rope_attention_factor, (0.1 * std::log(40.0) + 1) / all, 1e-15);
  ModelConfig small = scaled;
  small.rope_attention_factor = 1 / all;  // an mscale of 0, which counts as absent there
  EXPECT_THAT(refusal_of([&] { huggingface_kind(small); }), HasSubstr("rope_attention_factor"));
  EXPECT_EQ(scaled.moe.aux_loss, "sequence");
  const ExpertConfig& moe = scaled.moe;
  EXPECT_EQ(moe.first_layer, 1);
  EXPECT_EQ(moe.shared_ffn_hidden_size, 20);
  EXPECT_EQ(moe.score, "sigmoid");
  EXPECT_TRUE(moe.expert_bias);
  EXPECT_EQ(moe.scaling_factor, 2.5);
}

TEST(HuggingFaceConfig, DeepSeekIsRefusedForWhatIsNotTheSame) {
  const std::pair<nlohmann::json, const char*> cases[] = {
      {{{"rms_norm_eps", 1e-5}}, "it must be 1e-6"},
      {{{"rope_interleave", false}}, "rope_interleave is false"},
      {{{"attention_bias", true}}, "attention_bias is true"},
      {{{"num_key_value_heads", 1}}, "num_key_value_heads is the number 1"},
      {{{"num_experts_per_tok", 2}}, "these must be two"},
      {{{"v_head_dim", 12}}, "model.v_head_dim = 12"},
      {{{"scoring_func", "softmax"}}, "scoring_func is the string"},
      {{{"sliding_window", 16}}, "has no windows"},
  };
  for (const auto& [changes, message] : cases) {
    EXPECT_THAT([&] { parse_huggingface_config(deepseek(changes), "config.json"); },
                testing::ThrowsMessage<Error>(HasSubstr(message)))
        << changes.dump();
  }
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
    EXPECT_STREQ(huggingface_model_type(first.kind), type);
    const std::string text = huggingface_config_text(first, "float32");
    const HuggingFaceModel again = parse_huggingface_config(text, "config.json");
    EXPECT_EQ(again.kind, first.kind);
    Config before, after;
    before.model = first.model;
    after.model = again.model;
    EXPECT_EQ(to_toml(after), to_toml(before)) << type;
  }
}

TEST(HuggingFaceConfig, ScaledRotaryPositionsAreWrittenAsOldReadersWantThem) {
  const auto written = [](const std::string& name) {
    const HuggingFaceModel model = read_huggingface_config(reference(name));
    return nlohmann::json::parse(huggingface_config_text(model, "float32")).at("rope_scaling");
  };
  // Before 4.43: these two keys, and a factor with a point.
  EXPECT_EQ(written("linear_rope").dump(), R"({"factor":2.5,"type":"linear"})");
  EXPECT_EQ(written("llama3_rope").at("rope_type"), "llama3");
  EXPECT_EQ(written("llama3_rope").size(), 5u);
  EXPECT_TRUE(written("llama").is_null());
}

TEST(HuggingFaceConfig, TokensOutsideTheVocabularyAreNone) {
  auto json = nlohmann::json::parse(read_file(reference("gpt2") / "config.json"));
  json["bos_token_id"] = 50256;
  json["eos_token_id"] = {50256, 60, 3};
  const HuggingFaceTokens tokens = parse_huggingface_config(json.dump(), "config.json").tokens;
  EXPECT_EQ(tokens.bos, -1);
  EXPECT_EQ(tokens.eos, 60);
  EXPECT_THAT(tokens.further_eos, testing::ElementsAre(3));
}

std::string config_refusal(const std::string& name, const char* key, const nlohmann::json& value) {
  auto json = nlohmann::json::parse(read_file(reference(name) / "config.json"));
  json[key] = value;
  if (value.is_null()) json.erase(key);
  try {
    parse_huggingface_config(json.dump(), "config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return "accepted";
}

TEST(HuggingFaceConfig, ReadsScaledRotaryPositions) {
  const ModelConfig llama3 = read_huggingface_config(reference("llama3_rope")).model;
  EXPECT_EQ(llama3.rope_scaling, "llama3");
  EXPECT_EQ(llama3.rope_scaling_factor, 4);
  EXPECT_EQ(llama3.rope_low_freq_factor, 1);
  EXPECT_EQ(llama3.rope_high_freq_factor, 3);
  EXPECT_EQ(llama3.rope_original_length, 24);
  EXPECT_EQ(llama3.rope_base, 500);
  const ModelConfig linear = read_huggingface_config(reference("linear_rope")).model;
  EXPECT_EQ(linear.rope_scaling, "linear");
  EXPECT_EQ(linear.rope_scaling_factor, 2.5);
  EXPECT_EQ(linear.rope_base, 500);
}

TEST(HuggingFaceConfig, RefusesOtherScaledRotaryPositions) {
  const auto refusal = [](const nlohmann::json& scaling) {
    return config_refusal("llama", "rope_scaling", scaling);
  };
  EXPECT_EQ(refusal({{"rope_type", "default"}}), "accepted");
  EXPECT_EQ(refusal({{"type", "linear"}, {"factor", 1}}), "accepted");
  EXPECT_EQ(refusal({{"type", "linear"}, {"factor", 8}}), "accepted");
  EXPECT_THAT(
      refusal({{"rope_type", "longrope"}, {"factor", 8}}),
      HasSubstr("rope_scaling.rope_type is the string \"longrope\"; supported are default, linear, "
                "llama3 and yarn"));
  nlohmann::json yarn = {
      {"rope_type", "yarn"}, {"factor", 8}, {"original_max_position_embeddings", 16}};
  EXPECT_EQ(refusal(yarn), "accepted");
  yarn["mscale"] = 0.707;
  EXPECT_THAT(refusal(yarn), HasSubstr("only attention_factor is supported"));
  EXPECT_THAT(refusal({{"type", "dynamic"}, {"factor", 8}}), HasSubstr("rope_scaling.type is"));
  EXPECT_THAT(refusal({{"type", "linear"}}), HasSubstr("lacks 'rope_scaling.factor'"));
  EXPECT_THAT(refusal({{"type", "linear"}, {"factor", "8"}}),
              HasSubstr("rope_scaling.factor is the string \"8\"; it must be a number"));
  EXPECT_THAT(refusal({{"type", "linear"}, {"factor", 0.5}}), HasSubstr("at least 1"));
  EXPECT_THAT(refusal({{"rope_type", "llama3"}, {"factor", 8}}),
              HasSubstr("lacks 'rope_scaling.low_freq_factor'"));
  EXPECT_THAT(refusal({{"rope_type", "llama3"},
                       {"factor", 8},
                       {"low_freq_factor", 4},
                       {"high_freq_factor", 4},
                       {"original_max_position_embeddings", 8}}),
              HasSubstr("must be above model.rope_low_freq_factor"));
  EXPECT_THAT(refusal(7), HasSubstr("rope_scaling is the number 7; it must be an object"));
}

// The reference ignores the factor in Llama models, or fails where positions are scaled.
TEST(HuggingFaceConfig, PartialRotaryPositionsAreReadAsTheReferenceDoes) {
  auto json = nlohmann::json::parse(read_file(reference("llama") / "config.json"));
  EXPECT_EQ(parse_huggingface_config(json.dump(), "config.json").note, "");
  json["partial_rotary_factor"] = 0.5;
  HuggingFaceModel model = parse_huggingface_config(json.dump(), "config.json");
  EXPECT_EQ(model.model.rope_percent, 1);
  EXPECT_THAT(model.note, HasSubstr("partial_rotary_factor has no effect"));
  json.erase("partial_rotary_factor");
  json["rope_parameters"] = {{"rope_theta", 500}, {"partial_rotary_factor", 0.5}};
  model = parse_huggingface_config(json.dump(), "config.json");
  EXPECT_EQ(model.model.rope_percent, 1);
  EXPECT_THAT(model.note, HasSubstr("partial_rotary_factor has no effect"));
  EXPECT_THAT(config_refusal("linear_rope", "partial_rotary_factor", 0.5),
              HasSubstr("partial_rotary_factor is the number 0.5; only 1 is supported"));
}

TEST(HuggingFaceConfig, RefusesWhatItWouldGetWrong) {
  EXPECT_THAT(config_refusal("gpt2", "model_type", "mamba"),
              HasSubstr("supported are gpt2, bloom, llama"));
  EXPECT_THAT(config_refusal("gpt2", "model_type", nullptr), HasSubstr("lacks 'model_type'"));
  EXPECT_THAT(config_refusal("gpt2", "n_layer", nullptr), HasSubstr("lacks 'n_layer'"));
  EXPECT_THAT(config_refusal("gpt2", "n_layer", "2"), HasSubstr("n_layer is the string \"2\""));
  EXPECT_THAT(config_refusal("gpt2", "n_layer", -1), HasSubstr("from 1 to 100000"));
  EXPECT_THAT(config_refusal("gpt2", "n_layer", 1e300), HasSubstr("from 1 to 100000"));
  EXPECT_THAT(config_refusal("gpt2", "activation_function", "mish"), HasSubstr("mish"));
  EXPECT_THAT(config_refusal("gpt2", "scale_attn_by_inverse_layer_idx", true),
              HasSubstr("scale_attn_by_inverse_layer_idx is true"));
  EXPECT_THAT(config_refusal("gpt2", "n_head", 3), HasSubstr("model"));
  EXPECT_THAT(config_refusal("llama", "rope_parameters", {{"rope_theta", "x"}}),
              HasSubstr("rope_parameters.rope_theta is the string \"x\"; it must be a number"));
  EXPECT_THAT(config_refusal("llama", "attention_bias", true), HasSubstr("attention_bias"));
  EXPECT_THAT(config_refusal("llama", "tie_word_embeddings", 1), HasSubstr("true or false"));
  EXPECT_THAT(config_refusal("bert", "position_embedding_type", "relative_key"),
              HasSubstr("relative_key"));
  EXPECT_EQ(config_refusal("llama", "rope_scaling", {{"type", "default"}}), "accepted");
  EXPECT_THAT([] { parse_huggingface_config("[]", "config.json"); },
              testing::ThrowsMessage<Error>(HasSubstr("config.json")));
  EXPECT_THAT([] { parse_huggingface_config("{", "config.json"); },
              testing::ThrowsMessage<Error>(HasSubstr("not JSON")));
}

// Else a checkpoint would be written whose own configuration is refused.
TEST(HuggingFaceConfig, RefusesNumbersOutsideTheRangesOfTheConfiguration) {
  const std::tuple<const char*, const char*, double, const char*> cases[] = {
      {"gpt2", "layer_norm_epsilon", 0, "layer_norm_epsilon is the number 0.0; it must be above 0"},
      {"gpt2", "resid_pdrop", 1,
       "resid_pdrop is the number 1.0; it must be at least 0 and below 1"},
      {"gpt2", "initializer_range", -1, "initializer_range is the number -1.0"},
      {"llama", "rope_theta", 0, "rope_theta is the number 0.0; it must be above 0"},
      {"bert", "attention_probs_dropout_prob", 1.5, "attention_probs_dropout_prob is"},
  };
  for (const auto& [name, key, value, message] : cases)
    EXPECT_THAT(config_refusal(name, key, value), HasSubstr(message)) << key;
  nlohmann::json scaling = {{"rope_type", "llama3"},
                            {"factor", 8},
                            {"low_freq_factor", 0},
                            {"high_freq_factor", 4},
                            {"original_max_position_embeddings", 8}};
  EXPECT_THAT(config_refusal("llama", "rope_scaling", scaling),
              HasSubstr("rope_scaling.low_freq_factor is the number 0; it must be above 0"));
  scaling["factor"] = 1e7;
  EXPECT_THAT(config_refusal("llama", "rope_scaling", scaling),
              HasSubstr("rope_scaling.factor is the number 10000000.0; it must be at least 1"));
}

// Loaders read tokenizer.json: what it adds to the vocabulary's files must not get lost.
TEST(HuggingFaceTokenizer, ATokenizerJsonThatSaysMoreIsTaken) {
  const fs::path folder = fs::path(testing::TempDir()) / "trireme_tokenizer_json";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "vocab.json") << R"({"a":0,"b":1,"ab":2,"<|endoftext|>":3})";
  std::ofstream(folder / "merges.txt") << "#version: 0.2\na b\n";
  const auto type = [&] {
    return import_huggingface_tokenizer(folder, folder / "to", HuggingFaceKind::gpt2).type;
  };
  fs::create_directories(folder / "to");
  export_huggingface_tokenizer(
      {"gpt2", (folder / "vocab.json").string(), (folder / "merges.txt").string(), ""},
      folder / "to", 8);
  EXPECT_EQ(type(), "gpt2");
  fs::copy_file(folder / "to/tokenizer.json", folder / "tokenizer.json");
  EXPECT_EQ(type(), "gpt2");
  auto json = nlohmann::json::parse(read_file(folder / "tokenizer.json"));
  json["added_tokens"].push_back({{"id", 4}, {"content", "<pad>"}});
  std::ofstream(folder / "tokenizer.json") << json.dump();
  EXPECT_EQ(type(), "hf");
  fs::remove_all(folder);
}

// Loaders of Hugging Face read no tiktoken files.
TEST(HuggingFaceTokenizer, ATiktokenFileIsCopiedAndANoteSaysWhatIsMissing) {
  const fs::path folder = fs::path(testing::TempDir()) / "trireme_tiktoken_export";
  fs::create_directories(folder);
  std::ofstream(folder / "in.tiktoken") << "YQ== 0\n";
  fs::create_directories(folder / "out");
  const TokenizerFiles files{"tiktoken", "", "", (folder / "in.tiktoken").string()};
  EXPECT_THAT(export_huggingface_tokenizer(files, folder / "out", 8),
              AllOf(HasSubstr("'in.tiktoken' was copied"), HasSubstr("tokenizer.json")));
  EXPECT_EQ(read_file(folder / "out/in.tiktoken"), "YQ== 0\n");
  fs::remove_all(folder);
}

TEST(HuggingFaceTokenizer, ANullTokenizerHasNoFiles) {
  EXPECT_EQ(export_huggingface_tokenizer({.type = "null"}, "unused", 8),
            "the run's tokenizer is null: ids alone have no tokenizer files");
  EXPECT_THAT(export_huggingface_tokenizer({}, "unused", 8), HasSubstr("names no tokenizer"));
}

TEST(HuggingFaceKind, FollowsFromTheModel) {
  ModelConfig m = read_huggingface_config(reference("gpt2")).model;
  EXPECT_EQ(huggingface_kind(m), HuggingFaceKind::gpt2);
  m.norm = "rms_norm";
  EXPECT_THAT([&] { huggingface_kind(m); },
              testing::ThrowsMessage<Error>(HasSubstr("model.position = learned")));
  m = read_huggingface_config(reference("llama")).model;
  m.family = "gpt";
  EXPECT_EQ(huggingface_kind(m), HuggingFaceKind::llama);
  m.qkv_bias = true;
  EXPECT_EQ(huggingface_kind(m), HuggingFaceKind::qwen2);
  m.qk_norm = true;
  EXPECT_THAT([&] { huggingface_kind(m); },
              testing::ThrowsMessage<Error>(HasSubstr("model.qkv_bias = true")));
  m.qkv_bias = false;
  EXPECT_EQ(huggingface_kind(m), HuggingFaceKind::qwen3);
  m.qk_norm_over = "all_heads";
  EXPECT_THAT([&] { huggingface_kind(m); },
              testing::ThrowsMessage<Error>(HasSubstr("model.norm_placement = pre")));
  m.norm_placement = "output";
  EXPECT_EQ(huggingface_kind(m), HuggingFaceKind::olmo2);
  m.attention_window = 4;
  EXPECT_THAT([&] { huggingface_kind(m); },
              testing::ThrowsMessage<Error>(HasSubstr("model.attention_window = 4")));
  m.norm_placement = "pre";
  m.qk_norm = false;
  EXPECT_EQ(huggingface_kind(m), HuggingFaceKind::mistral);
  m.attention_window = 0;
  m.rope_percent = 0.5;
  EXPECT_THAT([&] { huggingface_kind(m); },
              testing::ThrowsMessage<Error>(HasSubstr("rope_percent = 0.5")));
}

// A copy of a reference folder that a test may spoil.
class HuggingFaceFolder : public testing::Test {
 protected:
  HuggingFaceFolder() {
    fs::remove_all(folder_);
    fs::copy(reference("gpt2"), folder_);
  }
  ~HuggingFaceFolder() override { fs::remove_all(folder_); }

  // What opening the folder and asking for every tensor says.
  std::string refusal() {
    try {
      const HuggingFaceModel model = read_huggingface_config(folder_);
      HuggingFaceWeights weights(folder_, model);
      TensorAssembler(huggingface_mapping(model), Direction::to_ours, weights);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return error.what();
    }
    return "accepted";
  }
  void write_text(const char* file, const std::string& text) {
    std::ofstream(folder_ / file) << text;
  }
  // Splits the weights into two files with an index.
  void split(const std::string& first_name, const std::string& second_name) {
    nlohmann::json map;
    {
      const SafetensorsFile file(folder_ / "model.safetensors");
      const std::size_t half = file.tensors().size() / 2;
      for (const bool second : {false, true}) {
        std::vector<SafetensorsTensor> tensors;
        for (std::size_t i = 0; i < file.tensors().size(); ++i) {
          const SafetensorsEntry& entry = file.tensors()[i];
          if ((i >= half) != second) continue;
          tensors.push_back({entry.name, *entry.dtype, entry.shape});
          map["weight_map"][entry.name] = second ? second_name : first_name;
        }
        SafetensorsWriter writer(folder_ / (second ? "b.safetensors" : "a.safetensors"), tensors);
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          const auto bytes = file.bytes(file.at(tensors[i].name));
          writer.write(i, 0, bytes.data(), bytes.size());
        }
        writer.finish();
      }
    }
    fs::remove(folder_ / "model.safetensors");
    write_text("model.safetensors.index.json", map.dump());
  }

  fs::path folder_ = fs::path(testing::TempDir()) / ("trireme_hf_" + std::to_string(::getpid()));
};

TEST_F(HuggingFaceFolder, IsAccepted) {
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(HuggingFaceFolder, ShardsAreFoundByTheirIndex) {
  split("a.safetensors", "b.safetensors");
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(HuggingFaceFolder, BadIndicesAreRefused) {
  split("../a.safetensors", "b.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("'../a.safetensors' is not the name"));
  write_text("model.safetensors.index.json", R"({"weight_map":{"no.such":"a.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr("holds 'no.such', but it does not"));
  write_text("model.safetensors.index.json", R"({"weight_map":{"x":"missing.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr("missing.safetensors"));
  write_text("model.safetensors.index.json", R"({"weight_map":[1]})");
  EXPECT_THAT(refusal(), HasSubstr("not an index"));
}

TEST_F(HuggingFaceFolder, MissingFilesAreNamed) {
  fs::remove(folder_ / "model.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("has neither model.safetensors nor"));
  fs::remove(folder_ / "config.json");
  EXPECT_THAT(refusal(), HasSubstr("has no config.json"));
}

TEST_F(HuggingFaceFolder, ShapesThatDoNotFitAreNamed) {
  auto json = nlohmann::json::parse(read_file(folder_ / "config.json"));
  json["vocab_size"] = 62;
  write_text("config.json", json.dump());
  EXPECT_THAT(refusal(), AllOf(HasSubstr("transformer.wte.weight"), HasSubstr("[61,16]"),
                               HasSubstr("[62, 16]")));
  json["vocab_size"] = 61;
  json["n_layer"] = 3;
  write_text("config.json", json.dump());
  EXPECT_THAT(refusal(), HasSubstr("has no tensor 'transformer.h.2."));
  json["n_layer"] = 1;
  write_text("config.json", json.dump());
  EXPECT_THAT(refusal(), HasSubstr("a model with this config.json does not have"));
}

}  // namespace
}  // namespace trireme
