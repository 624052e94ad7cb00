// Reading config.json: one function per kind of model.
#include "interop/huggingface_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "config/fields.h"
#include "interop/foreign.h"
#include "interop/huggingface_activations.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

// Reads keys with their types; every error names file, key and value.
class Reader {
 public:
  Reader(std::string_view text, const std::string& name)
      : name_(name), json_(parse_json(text, name)) {
    if (!json_.is_object()) fail_input("'{}' is {}, not a JSON object", name_, json_shown(json_));
  }

  // The object at a key; messages about its keys begin with "KEY.".
  Reader section(const char* key) const {
    if (!json_[key].is_object()) refuse(key, "it must be an object");
    return {name_, json_[key], prefix_ + key + "."};
  }

  const std::string& name() const { return name_; }
  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }

  // Numbers: `ours` is the key of [model] or [moe] that the value becomes; its range applies.
  std::int64_t size(const char* key, const char* ours) const {
    require(key);
    return size(key, ours, 0);
  }
  std::int64_t size(const char* key, const char* ours, std::int64_t otherwise) const {
    if (!has(key)) return otherwise;
    const double largest = limits(ours).max;
    if (!json_[key].is_number_integer() || json_[key] < 1 || json_[key] > largest) {
      refuse(key, fmt::format("it must be a whole number from 1 to {}", largest));
    }
    return json_[key].get<std::int64_t>();
  }
  double number(const char* key, const char* ours) const {
    require(key);
    return number(key, ours, 0);
  }
  double number(const char* key, const char* ours, double otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_number()) refuse(key, "it must be a number");
    const FieldLimits& range = limits(ours);
    const auto value = json_[key].get<double>();
    const bool low = range.above_min ? value > range.min : value >= range.min;
    const bool high = range.below_max ? value < range.max : value <= range.max;
    if (!low || !high) refuse(key, "it must be " + range_text(range));
    return value;
  }
  bool flag(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_boolean()) refuse(key, "it must be true or false");
    return json_[key].get<bool>();
  }
  std::string text(const char* key, const char* otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_string()) refuse(key, "it must be a string");
    return json_[key].get<std::string>();
  }
  // Refuses a setting that would compute something else.
  void must_be(const char* key, const Json& value) const {
    if (has(key) && json_[key] != value) {
      refuse(key, "only " + value.dump() + " is supported");
    }
  }
  [[noreturn]] void refuse(const char* key, const std::string& why) const {
    fail_input("'{}': {}{} is {}; {}", name_, prefix_, key, json_shown(json_[key]), why);
  }
  const Json& operator[](const char* key) const { return json_[key]; }

  std::string activation(const char* key, const char* otherwise) const {
    const std::string theirs = text(key, otherwise);
    for (const auto& activation : huggingface_activations) {
      if (theirs == activation.theirs) return activation.ours;
    }
    refuse(key, "supported are gelu_new, gelu_pytorch_tanh, gelu, silu, swish and relu2");
  }

 private:
  Reader(const std::string& name, Json json, std::string prefix)
      : name_(name), json_(std::move(json)), prefix_(std::move(prefix)) {}
  static const FieldLimits& limits(const char* ours) {
    const Field* field = find_field("model", ours);
    if (!field) field = find_field("moe", ours);
    TRIREME_CHECK(field);
    return field->limits;
  }
  void require(const char* key) const {
    if (!has(key)) fail_input("'{}' lacks '{}{}'", name_, prefix_, key);
  }

  const std::string& name_;
  Json json_;
  std::string prefix_;
};

ModelConfig read_gpt2(const Reader& json) {
  json.must_be("scale_attn_weights", true);
  json.must_be("scale_attn_by_inverse_layer_idx", false);
  json.must_be("add_cross_attention", false);
  ModelConfig m;
  m.family = "gpt";
  m.num_layers = json.size("n_layer", "num_layers");
  m.hidden_size = json.size("n_embd", "hidden_size");
  m.num_heads = json.size("n_head", "num_heads");
  m.ffn_hidden_size = json.size("n_inner", "ffn_hidden_size", 4 * m.hidden_size);
  m.max_positions = json.size("n_positions", "max_positions");
  m.vocab_size = json.size("vocab_size", "vocab_size");
  m.activation = json.activation("activation_function", "gelu_new");
  m.norm_eps = json.number("layer_norm_epsilon", "norm_eps", 1e-5);
  m.tie_embeddings = json.flag("tie_word_embeddings", true);
  m.hidden_dropout = json.number("resid_pdrop", "hidden_dropout", 0.1);
  m.attention_dropout = json.number("attn_pdrop", "attention_dropout", 0.1);
  m.init_std = json.number("initializer_range", "init_std", 0.02);
  return m;
}

void read_yarn(const Reader& rope, ModelConfig& m) {
  rope.must_be("truncate", true);
  for (const char* key : {"mscale", "mscale_all_dim"})
    if (rope.has(key)) rope.refuse(key, "only attention_factor is supported");
  m.rope_beta_fast = rope.number("beta_fast", "rope_beta_fast", 32);
  m.rope_beta_slow = rope.number("beta_slow", "rope_beta_slow", 1);
  m.rope_attention_factor = rope.number("attention_factor", "rope_attention_factor", 0);
  m.rope_original_length = rope.size("original_max_position_embeddings", "rope_original_length");
}

// One object of rotary parameters, in either spelling.
void read_rope_scaling(const Reader& rope, ModelConfig& m) {
  const char* key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text(key, "default");
  m.rope_base = rope.number("rope_theta", "rope_base", m.rope_base);
  if (type == "default") return;
  if (type != "linear" && type != "llama3" && type != "yarn") {
    rope.refuse(key, "supported are default, linear, llama3 and yarn");
  }
  rope.must_be("partial_rotary_factor", 1);
  m.rope_scaling_factor = rope.number("factor", "rope_scaling_factor");
  if (m.rope_scaling_factor == 1) return;
  m.rope_scaling = type;
  if (type == "linear") return;
  if (type == "yarn") return read_yarn(rope, m);
  m.rope_low_freq_factor = rope.number("low_freq_factor", "rope_low_freq_factor");
  m.rope_high_freq_factor = rope.number("high_freq_factor", "rope_high_freq_factor");
  m.rope_original_length = rope.size("original_max_position_embeddings", "rope_original_length");
}

// transformers 5 has rope_parameters, earlier versions rope_theta and rope_scaling at top level. A
// partial_rotary_factor is not read: Llama models of transformers always rotate whole heads.
void read_rope(const Reader& json, ModelConfig& m) {
  m.rope_base = json.number("rope_theta", "rope_base", 10000);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (json.has(key)) read_rope_scaling(json.section(key), m);
  }
  if (m.rope_scaling != "none") json.must_be("partial_rotary_factor", 1);
}

// What the user should know about settings that have no effect.
std::string note_on_llama(const Reader& json) {
  const auto is_partial = [](const Reader& reader) {
    return reader.has("partial_rotary_factor") && reader["partial_rotary_factor"] != 1;
  };
  if (!is_partial(json) &&
      !(json.has("rope_parameters") && is_partial(json.section("rope_parameters")))) {
    return "";
  }
  return "config.json: partial_rotary_factor has no effect in a Llama model, as in transformers";
}

// What Llama and its relatives have in common.
ModelConfig read_llama_like(const Reader& json) {
  ModelConfig m;
  m.family = "llama";
  m.num_layers = json.size("num_hidden_layers", "num_layers");
  m.hidden_size = json.size("hidden_size", "hidden_size");
  m.num_heads = json.size("num_attention_heads", "num_heads");
  m.num_kv_heads = json.size("num_key_value_heads", "num_kv_heads", m.num_heads);
  m.head_dim = json.size("head_dim", "head_dim", 0);
  m.ffn_hidden_size = json.size("intermediate_size", "ffn_hidden_size");
  m.max_positions = json.size("max_position_embeddings", "max_positions", 2048);
  m.vocab_size = json.size("vocab_size", "vocab_size");
  if (json.text("hidden_act", "silu") != "silu")
    json.refuse("hidden_act", "only silu is supported");
  m.activation = "swiglu";
  m.norm_eps = json.number("rms_norm_eps", "norm_eps", 1e-6);
  read_rope(json, m);
  m.bias = m.qkv_bias = false;
  m.tie_embeddings = json.flag("tie_word_embeddings", false);
  m.attention_dropout = json.number("attention_dropout", "attention_dropout", 0);
  m.init_std = json.number("initializer_range", "init_std", 0.02);
  return m;
}

ModelConfig read_llama(const Reader& json) {
  ModelConfig m = read_llama_like(json);
  m.bias = json.flag("mlp_bias", false);
  m.qkv_bias = json.flag("attention_bias", false);
  if (m.bias != m.qkv_bias) {
    json.refuse(json.has("mlp_bias") ? "mlp_bias" : "attention_bias",
                "attention_bias and mlp_bias must be the same");
  }
  return m;
}

// A window that is as long as any sequence hides nothing.
void refuse_windows(const Reader& json, const ModelConfig& m) {
  if (!json.has("sliding_window")) return;
  if (json["sliding_window"].is_number_integer() && json["sliding_window"] >= m.max_positions)
    return;
  json.refuse("sliding_window",
              "sliding windows are not supported, so it must be null or at least "
              "max_position_embeddings");
}

ModelConfig read_mistral(const Reader& json) {
  ModelConfig m = read_llama_like(json);
  refuse_windows(json, m);
  return m;
}

// Qwen2 and Qwen3 have windows only with use_sliding_window.
ModelConfig read_qwen(const Reader& json) {
  ModelConfig m = read_llama_like(json);
  if (json.flag("use_sliding_window", false)) refuse_windows(json, m);
  return m;
}

ModelConfig read_qwen2(const Reader& json) {
  ModelConfig m = read_qwen(json);
  m.qkv_bias = true;
  return m;
}

ModelConfig read_qwen3(const Reader& json) {
  ModelConfig m = read_qwen(json);
  json.must_be("attention_bias", false);
  m.qk_norm = true;
  return m;
}

// Llama whose layers all have experts. The balance loss of transformers is one for all layers
// together, so that its coefficient is only about ours of a layer times layers / top_k.
ModelConfig read_mixtral(const Reader& json) {
  json.must_be("router_jitter_noise", 0);
  if (json.has("sliding_window")) json.refuse("sliding_window", "only null is supported");
  ModelConfig m = read_llama(json);
  m.qkv_bias = m.bias = false;
  m.moe.num_experts = json.size("num_local_experts", "num_experts", 8);
  m.moe.top_k = json.size("num_experts_per_tok", "top_k", 2);
  m.moe.ffn_hidden_size = m.ffn_hidden_size;
  m.moe.aux_loss_coeff = json.number("router_aux_loss_coef", "aux_loss_coeff", 0.001) *
                         static_cast<double>(m.moe.top_k) / static_cast<double>(m.num_layers);
  return m;
}

// The layers that have experts: every so many, the last of each round, without those of a list.
void read_sparse_layers(const Reader& json, ModelConfig& m) {
  const std::int64_t step = json.size("decoder_sparse_step", "layer_interval", 1);
  std::vector<std::int64_t> dense;
  if (json.has("mlp_only_layers")) {
    for (const Json& layer : json["mlp_only_layers"]) {
      if (!layer.is_number_integer()) json.refuse("mlp_only_layers", "it must be a list of layers");
      dense.push_back(layer.get<std::int64_t>());
    }
  }
  std::vector<std::int64_t> sparse;
  for (std::int64_t layer = step - 1; layer < m.num_layers; layer += step)
    if (std::ranges::find(dense, layer) == dense.end()) sparse.push_back(layer);
  if (sparse.empty()) json.refuse("decoder_sparse_step", "it leaves no layer with experts");
  if (dense.empty()) {
    m.moe.first_layer = step - 1;
    m.moe.layer_interval = step;
  } else {
    m.moe.layers = std::move(sparse);
  }
}

// Llama with biases of queries, keys and values, and layers with experts and a shared one.
ModelConfig read_qwen2_moe(const Reader& json) {
  json.must_be("use_sliding_window", false);
  ModelConfig m = read_llama(json);
  m.bias = false;
  m.qkv_bias = json.flag("qkv_bias", true);
  m.moe.num_experts = json.has("num_local_experts") ? json.size("num_local_experts", "num_experts")
                                                    : json.size("num_experts", "num_experts", 60);
  m.moe.top_k = json.size("num_experts_per_tok", "top_k", 4);
  m.moe.ffn_hidden_size = json.size("moe_intermediate_size", "ffn_hidden_size", 1408);
  m.moe.shared_ffn_hidden_size =
      json.size("shared_expert_intermediate_size", "shared_ffn_hidden_size", 5632);
  m.moe.shared_gate = true;
  m.moe.normalize_weights = json.flag("norm_topk_prob", false);
  m.moe.aux_loss_coeff = json.number("router_aux_loss_coef", "aux_loss_coeff", 0.001) *
                         static_cast<double>(m.moe.top_k) / static_cast<double>(m.num_layers);
  read_sparse_layers(json, m);
  return m;
}

ModelConfig read_bert(const Reader& json) {
  if (json.text("position_embedding_type", "absolute") != "absolute") {
    json.refuse("position_embedding_type", "only absolute is supported");
  }
  json.must_be("is_decoder", false);
  json.must_be("add_cross_attention", false);
  json.must_be("type_vocab_size", 2);
  ModelConfig m;
  m.family = "bert";
  m.num_layers = json.size("num_hidden_layers", "num_layers");
  m.hidden_size = json.size("hidden_size", "hidden_size");
  m.num_heads = json.size("num_attention_heads", "num_heads");
  m.ffn_hidden_size = json.size("intermediate_size", "ffn_hidden_size");
  m.max_positions = json.size("max_position_embeddings", "max_positions");
  m.vocab_size = json.size("vocab_size", "vocab_size");
  m.activation = json.activation("hidden_act", "gelu");
  m.norm_eps = json.number("layer_norm_eps", "norm_eps", 1e-12);
  m.tie_embeddings = json.flag("tie_word_embeddings", true);
  m.hidden_dropout = json.number("hidden_dropout_prob", "hidden_dropout", 0.1);
  m.attention_dropout = json.number("attention_probs_dropout_prob", "attention_dropout", 0.1);
  m.init_std = json.number("initializer_range", "init_std", 0.02);
  return m;
}

// The ids of a key, one or a list. Ids outside the vocabulary are ignored: they are defaults that a
// model with a smaller vocabulary never changed.
std::vector<std::int64_t> read_tokens(const Reader& json, const char* key, std::int64_t vocab) {
  std::vector<std::int64_t> ids;
  if (!json.has(key)) return ids;
  const Json list = json[key].is_array() ? json[key] : Json::array({json[key]});
  for (const Json& value : list) {
    if (!value.is_number_integer()) json.refuse(key, "it must be the id of a token");
    const auto id = value.get<std::int64_t>();
    if (id >= 0 && id < vocab) ids.push_back(id);
  }
  return ids;
}

HuggingFaceTokens read_all_tokens(const Reader& json, std::int64_t vocab) {
  const auto first = [&](const char* key) {
    const std::vector<std::int64_t> ids = read_tokens(json, key, vocab);
    return ids.empty() ? -1 : ids.front();
  };
  HuggingFaceTokens tokens{first("bos_token_id"), -1, first("pad_token_id"), {}};
  tokens.further_eos = read_tokens(json, "eos_token_id", vocab);
  if (!tokens.further_eos.empty()) {
    tokens.eos = tokens.further_eos.front();
    tokens.further_eos.erase(tokens.further_eos.begin());
  }
  return tokens;
}

}  // namespace

HuggingFaceModel parse_huggingface_config(std::string_view text, const std::string& name) {
  const Reader json(text, name);
  const std::string type = json.text("model_type", "");
  HuggingFaceModel out;
  if (type == "gpt2") {
    out = {HuggingFaceKind::gpt2, read_gpt2(json)};
  } else if (type == "llama") {
    out = {HuggingFaceKind::llama, read_llama(json)};
    out.note = note_on_llama(json);
  } else if (type == "mistral") {
    out = {HuggingFaceKind::llama, read_mistral(json)};
  } else if (type == "qwen2") {
    out = {HuggingFaceKind::qwen2, read_qwen2(json)};
  } else if (type == "qwen3") {
    out = {HuggingFaceKind::qwen3, read_qwen3(json)};
  } else if (type == "mixtral") {
    out = {HuggingFaceKind::mixtral, read_mixtral(json)};
  } else if (type == "qwen2_moe") {
    out = {HuggingFaceKind::qwen2_moe, read_qwen2_moe(json)};
  } else if (type == "bert") {
    out = {HuggingFaceKind::bert, read_bert(json)};
    out.model.norm_placement = "post";
  } else if (type == "megatron-bert") {
    out = {HuggingFaceKind::megatron_bert, read_bert(json)};
  } else if (json.has("model_type")) {
    json.refuse("model_type",
                "supported are gpt2, llama, mistral, qwen2, qwen3, "
                "mixtral, qwen2_moe, bert and megatron-bert");
  } else {
    fail_input("'{}' lacks 'model_type'", name);
  }
  out.tokens = read_all_tokens(json, out.model.vocab_size);
  ModelConfig& m = out.model;
  m.seq_length = m.max_positions;
  // The family must not replace these values as if they were defaults.
  m.given = {"bias", "qkv_bias", "tie_embeddings", "norm_eps"};
  resolve(m);
  validate(m);
  return out;
}

HuggingFaceModel read_huggingface_config(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  if (!fs::exists(file)) {
    if (!fs::exists(folder)) fail_input("'{}' does not exist", folder.string());
    const std::string foreign = describe_foreign(folder);
    fail_input("'{}' is not the folder of a Hugging Face model: it has no config.json{}{}",
               folder.string(), foreign.empty() ? "" : "; ", foreign);
  }
  return parse_huggingface_config(read_file(file, std::uint64_t{16} << 20), file.string());
}

}  // namespace trireme
