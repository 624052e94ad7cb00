// Dense relatives of Llama, one function each, and their common code.
#include "formats/huggingface/kinds/llama.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "formats/huggingface/activations.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kMistral{.kv_heads = 8, .positions = 131072};
constexpr LlamaDefaults kQwen2{.kv_heads = 32, .positions = 32768};
constexpr LlamaDefaults kQwen3{.kv_heads = 32, .head_dim = 128, .positions = 32768};
constexpr LlamaDefaults kOlmo2{.norm_eps = 1e-5};
constexpr LlamaDefaults kOlmo3{.norm_eps = 1e-5, .reads_rope = false};
constexpr LayerBases kOlmo3Bases{5e5, 5e5};
constexpr LlamaDefaults kArcee{
    .positions = 4096, .norm_eps = 1e-5, .activation = "relu2", .mlp = MlpActivation::squared_relu};

ModelConfig read_llama(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, {});
  read_biases(json, m);
  refuse_window(json);
  return m;
}

// transformers assumes a window of 4096 if the key is absent, and none if it is null.
ModelConfig read_mistral(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kMistral);
  m.attention_window = 4096;
  read_window(json, m);
  return m;
}

ModelConfig read_qwen2(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kQwen2);
  read_qwen_window(json, m);
  m.qkv_bias = true;
  return m;
}

ModelConfig read_qwen3(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kQwen3);
  read_qwen_window(json, m);
  json.must_be("attention_bias", false);
  m.qk_norm = true;
  return m;
}

ModelConfig read_olmo(const HuggingFaceReader& json, const LlamaDefaults& defaults) {
  ModelConfig m = read_llama_like(json, defaults);
  json.must_be("attention_bias", false);
  m.norm_placement = NormPlacement::output;
  m.qk_norm = true;
  m.qk_norm_over = NormSpan::all_heads;
  return m;
}

ModelConfig read_olmo2(const HuggingFaceReader& json) {
  ModelConfig m = read_olmo(json, kOlmo2);
  refuse_window(json);
  return m;
}

// OLMo 3: OLMo 2 with windows in three of four layers, without RoPE scaling in those.
ModelConfig read_olmo3(const HuggingFaceReader& json) {
  ModelConfig m = read_olmo(json, kOlmo3);
  read_rounds_of_windows(json, m, 4);
  read_rope_by_layer(json, m, kOlmo3Bases);
  return m;
}

// Arcee's MLP has no gate.
ModelConfig read_arcee(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kArcee);
  read_biases(json, m);
  refuse_window(json);
  return m;
}

HuggingFaceJson write_llama(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  write_biases(json, m);
  return json;
}

// Without a window the model is a Llama: it is written with one, so that the readback differs.
HuggingFaceJson write_mistral(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["sliding_window"] = m.attention_window > 0 ? m.attention_window : 4096;
  return json;
}

HuggingFaceJson write_qwen2(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  write_qwen_window(json, m);
  return json;
}

HuggingFaceJson write_qwen3(const ModelConfig& m) {
  HuggingFaceJson json = write_qwen2(m);
  json["attention_bias"] = false;
  return json;
}

HuggingFaceJson write_olmo2(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["attention_bias"] = false;
  return json;
}

// Other RoPE bases are written by layer type, which only transformers 5 reads.
HuggingFaceJson write_olmo3(const ModelConfig& m) {
  HuggingFaceJson json = write_olmo2(m);
  json["sliding_window"] = m.attention_window > 0 ? m.attention_window : 4096;
  write_layer_types(json, m);
  json["rope_scaling"] = write_full_rope(m);
  const bool usual = m.rope_base == kOlmo3Bases.full &&
                     (m.rope_base_local == 0 || m.rope_base_local == kOlmo3Bases.local);
  if (usual) return json;
  json.erase("rope_theta");
  json.erase("rope_scaling");
  json["rope_parameters"] = write_rope_by_layer(m);
  return json;
}

HuggingFaceJson write_arcee(const ModelConfig& m) {
  HuggingFaceJson json = write_llama(m);
  json["hidden_act"] = kArcee.activation;
  return json;
}

constexpr HuggingFaceInertKey llama_keys[] = {
    {"is_llama_config"},
    {"layer_types", "[null]"},
    {"max_sequence_length"},
    {"rope_interleaved", "[false]"},
    {"use_sliding_window", "[false]"},
};

}  // namespace

ModelConfig read_llama_like(const HuggingFaceReader& json, const LlamaDefaults& defaults) {
  json.must_be("is_causal", true);
  ModelConfig m;
  m.family = "llama";
  m.num_layers = json.size("num_hidden_layers", "num_layers");
  m.hidden_size = json.size("hidden_size", "hidden_size");
  m.num_heads = json.size("num_attention_heads", "num_heads");
  const auto size = [&](const char* key, const char* ours, std::int64_t absent) {
    return json.is_null(key) ? 0 : json.size(key, ours, absent);
  };
  m.num_kv_heads = size("num_key_value_heads", "num_kv_heads", defaults.kv_heads);
  m.head_dim = size("head_dim", "head_dim", defaults.head_dim);
  m.ffn_hidden_size = json.size(defaults.inner, "ffn_hidden_size");
  m.max_positions = json.size("max_position_embeddings", "max_positions", defaults.positions);
  m.vocab_size = json.size("vocab_size", "vocab_size");
  require_llama_activation(json, "hidden_act", defaults.activation);
  m.activation = defaults.mlp;
  m.norm_eps = json.number("rms_norm_eps", "norm_eps", defaults.norm_eps);
  if (defaults.reads_rope) read_rope(json, m, defaults.rope_base);
  m.bias = m.qkv_bias = false;
  m.tie_embeddings = json.flag("tie_word_embeddings", defaults.tie_embeddings);
  m.attention_dropout = json.is_null("attention_dropout")
                            ? 0
                            : json.number("attention_dropout", "attention_dropout", 0);
  m.init_std = json.number("initializer_range", "init_std", 0.02);
  return m;
}

void read_biases(const HuggingFaceReader& json, ModelConfig& m) {
  m.bias = json.flag("mlp_bias", false);
  m.qkv_bias = json.flag("attention_bias", false);
  if (m.bias == m.qkv_bias) return;
  json.refuse(json.has("mlp_bias") ? "mlp_bias" : "attention_bias",
              "attention_bias and mlp_bias must be the same");
}

void write_biases(HuggingFaceJson& json, const ModelConfig& m) {
  json["attention_bias"] = m.bias;
  json["mlp_bias"] = m.bias;
}

void require_llama_activation(const HuggingFaceReader& json, const char* key, const char* only) {
  if (activation_named(json.text(key, only)) != activation_named(only))
    json.refuse(key, fmt::format("only {} is supported", only));
}

HuggingFaceJson write_llama_like(const ModelConfig& m) {
  return {{"vocab_size", m.vocab_size},
          {"max_position_embeddings", m.max_positions},
          {"hidden_size", m.hidden_size},
          {"intermediate_size", m.ffn_hidden_size},
          {"num_hidden_layers", m.num_layers},
          {"num_attention_heads", m.num_heads},
          {"num_key_value_heads", m.num_kv_heads},
          {"head_dim", m.head_dim},
          {"hidden_act", "silu"},
          {"rms_norm_eps", m.norm_eps},
          {"rope_theta", m.rope_base},
          {"rope_scaling", write_rope_scaling(m)},
          {"attention_dropout", m.attention_dropout},
          {"initializer_range", m.init_std},
          {"tie_word_embeddings", m.tie_embeddings}};
}

const HuggingFaceKind llama_kind{"LlamaForCausalLM", "llama",     &llama_names,
                                 read_llama,         write_llama, llama_keys};
const HuggingFaceKind mistral_kind{"MistralForCausalLM", "mistral",     &llama_names,
                                   read_mistral,         write_mistral, mistral_keys};
const HuggingFaceKind qwen2_kind{"Qwen2ForCausalLM", "qwen2",     &llama_names,
                                 read_qwen2,         write_qwen2, qwen2_keys};
const HuggingFaceKind qwen3_kind{"Qwen3ForCausalLM", "qwen3",     &llama_names,
                                 read_qwen3,         write_qwen3, qwen3_keys};
const HuggingFaceKind olmo2_kind{"Olmo2ForCausalLM", "olmo2",     &llama_names,
                                 read_olmo2,         write_olmo2, olmo2_keys};
const HuggingFaceKind olmo3_kind{"Olmo3ForCausalLM", "olmo3",     &llama_names,
                                 read_olmo3,         write_olmo3, qwen3_keys};
const HuggingFaceKind arcee_kind{"ArceeForCausalLM", "arcee",     &llama_names,
                                 read_arcee,         write_arcee, llama_keys};

}  // namespace trireme
