// One function per direction and kind; what the table of a kind does not know is checked by name.
#include "interop/huggingface_config.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace trireme {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // what is written keeps its order

struct Activation {
  const char* ours;
  const char* theirs;
};
// The first of theirs is the one that is written.
constexpr Activation activations[] = {
    {"gelu_tanh", "gelu_new"}, {"gelu_tanh", "gelu_pytorch_tanh"},
    {"gelu_erf", "gelu"},      {"silu", "silu"},
    {"silu", "swish"},         {"squared_relu", "relu2"},
};

// Reads keys with their types; every refusal names file, key and value.
class Reader {
 public:
  Reader(std::string_view text, const std::string& name)
      : name_(name), json_(parse_json(text, name)) {
    if (!json_.is_object()) fail_input("'{}' is {}, not a JSON object", name_, json_shown(json_));
  }

  const std::string& name() const { return name_; }
  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }

  std::int64_t size(const char* key) const {
    if (!has(key)) fail_input("'{}' lacks '{}'", name_, key);
    return size(key, 0);
  }
  std::int64_t size(const char* key, std::int64_t otherwise) const {
    if (!has(key)) return otherwise;
    constexpr std::int64_t largest = std::int64_t{1} << 31;
    if (!json_[key].is_number_integer() || json_[key] < 1 || json_[key] > largest) {
      refuse(key, "it must be a whole number from 1 to 2^31");
    }
    return json_[key].get<std::int64_t>();
  }
  double number(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_number()) refuse(key, "it must be a number");
    return json_[key].get<double>();
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
      refuse(key, "only " + value.dump() + " computes what this program computes");
    }
  }
  [[noreturn]] void refuse(const char* key, const std::string& why) const {
    fail_input("'{}': {} is {}; {}", name_, key, json_shown(json_[key]), why);
  }
  const Json& operator[](const char* key) const { return json_[key]; }

  std::string activation(const char* key, const char* otherwise) const {
    const std::string theirs = text(key, otherwise);
    for (const Activation& activation : activations) {
      if (theirs == activation.theirs) return activation.ours;
    }
    refuse(key, "known are gelu_new, gelu_pytorch_tanh, gelu, silu, swish and relu2");
  }

 private:
  const std::string& name_;
  Json json_;
};

ModelConfig read_gpt2(const Reader& json) {
  json.must_be("scale_attn_weights", true);
  json.must_be("scale_attn_by_inverse_layer_idx", false);
  json.must_be("add_cross_attention", false);
  ModelConfig m;
  m.family = "gpt";
  m.num_layers = json.size("n_layer");
  m.hidden_size = json.size("n_embd");
  m.num_heads = json.size("n_head");
  m.ffn_hidden_size = json.size("n_inner", 4 * m.hidden_size);
  m.max_positions = json.size("n_positions");
  m.vocab_size = json.size("vocab_size");
  m.activation = json.activation("activation_function", "gelu_new");
  m.norm_eps = json.number("layer_norm_epsilon", 1e-5);
  m.tie_embeddings = json.flag("tie_word_embeddings", true);
  m.hidden_dropout = json.number("resid_pdrop", 0.1);
  m.attention_dropout = json.number("attn_pdrop", 0.1);
  m.init_std = json.number("initializer_range", 0.02);
  return m;
}

// transformers 5 has rope_parameters, earlier ones rope_theta and rope_scaling at top level.
double read_rope_base(const Reader& json) {
  double base = json.number("rope_theta", 10000);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!json.has(key)) continue;
    const Json& rope = json[key];
    if (!rope.is_object()) json.refuse(key, "it must be an object");
    const Json type = rope.value("rope_type", rope.value("type", Json("default")));
    if (type != "default") json.refuse(key, "scaled rotary positions are not supported");
    if (rope.contains("rope_theta")) {
      if (!rope["rope_theta"].is_number()) json.refuse(key, "rope_theta must be a number");
      base = rope["rope_theta"].get<double>();
    }
  }
  return base;
}

ModelConfig read_llama(const Reader& json) {
  ModelConfig m;
  m.family = "llama";
  m.num_layers = json.size("num_hidden_layers");
  m.hidden_size = json.size("hidden_size");
  m.num_heads = json.size("num_attention_heads");
  m.num_kv_heads = json.size("num_key_value_heads", m.num_heads);
  m.head_dim = json.size("head_dim", 0);
  m.ffn_hidden_size = json.size("intermediate_size");
  m.max_positions = json.size("max_position_embeddings", 2048);
  m.vocab_size = json.size("vocab_size");
  if (json.text("hidden_act", "silu") != "silu") json.refuse("hidden_act", "only silu is known");
  m.activation = "swiglu";
  m.norm_eps = json.number("rms_norm_eps", 1e-6);
  m.rope_base = read_rope_base(json);
  m.rope_percent = json.number("partial_rotary_factor", 1);
  m.bias = json.flag("mlp_bias", false);
  m.qkv_bias = json.flag("attention_bias", false);
  if (m.bias != m.qkv_bias) {
    json.refuse(json.has("mlp_bias") ? "mlp_bias" : "attention_bias",
                "attention_bias and mlp_bias must be the same");
  }
  m.tie_embeddings = json.flag("tie_word_embeddings", false);
  m.attention_dropout = json.number("attention_dropout", 0);
  m.init_std = json.number("initializer_range", 0.02);
  return m;
}

ModelConfig read_bert(const Reader& json) {
  if (json.text("position_embedding_type", "absolute") != "absolute") {
    json.refuse("position_embedding_type", "only absolute positions are known");
  }
  json.must_be("is_decoder", false);
  json.must_be("add_cross_attention", false);
  json.must_be("type_vocab_size", 2);
  ModelConfig m;
  m.family = "bert";
  m.num_layers = json.size("num_hidden_layers");
  m.hidden_size = json.size("hidden_size");
  m.num_heads = json.size("num_attention_heads");
  m.ffn_hidden_size = json.size("intermediate_size");
  m.max_positions = json.size("max_position_embeddings");
  m.vocab_size = json.size("vocab_size");
  m.activation = json.activation("hidden_act", "gelu");
  m.norm_eps = json.number("layer_norm_eps", 1e-12);
  m.tie_embeddings = json.flag("tie_word_embeddings", true);
  m.hidden_dropout = json.number("hidden_dropout_prob", 0.1);
  m.attention_dropout = json.number("attention_probs_dropout_prob", 0.1);
  m.init_std = json.number("initializer_range", 0.02);
  return m;
}

const char* activation_name(const ModelConfig& model) {
  for (const Activation& activation : activations) {
    if (model.activation == activation.ours) return activation.theirs;
  }
  fail_input("model.activation = {} has no counterpart in this kind of Hugging Face model",
             model.activation);
}

// Refuses to export what the kind cannot compute.
void require(bool good, const char* kind, const char* key, const std::string& value) {
  if (!good) {
    fail_input("cannot export to Hugging Face: {} has no counterpart for model.{} = {}", kind, key,
               value);
  }
}

void require_gpt2(const ModelConfig& m) {
  const char* kind = "GPT2LMHeadModel";
  require(m.position == "learned", kind, "position", m.position);
  require(m.norm == "layer_norm", kind, "norm", m.norm);
  require(m.activation != "swiglu", kind, "activation", m.activation);
  require(m.bias, kind, "bias", "false");
  require(m.qkv_bias, kind, "qkv_bias", "false");
  require(m.num_kv_heads == m.num_heads, kind, "num_kv_heads", std::to_string(m.num_kv_heads));
  require(m.head_dim * m.num_heads == m.hidden_size, kind, "head_dim", std::to_string(m.head_dim));
}

void require_llama(const ModelConfig& m) {
  const char* kind = "LlamaForCausalLM";
  require(m.position == "rope", kind, "position", m.position);
  require(m.norm == "rms_norm", kind, "norm", m.norm);
  require(m.activation == "swiglu", kind, "activation", m.activation);
  require(m.bias == m.qkv_bias, kind, "qkv_bias", m.qkv_bias ? "true" : "false");
  require(m.rope_percent == 1, kind, "rope_percent", fmt::format("{}", m.rope_percent));
}

void require_bert(const ModelConfig& m) {
  const char* kind = "BERT";
  require(m.position == "learned", kind, "position", m.position);
  require(m.norm == "layer_norm", kind, "norm", m.norm);
  require(m.activation != "swiglu", kind, "activation", m.activation);
  require(m.bias, kind, "bias", "false");
  require(m.qkv_bias, kind, "qkv_bias", "false");
  require(m.tie_embeddings, kind, "tie_embeddings", "false");
  require(m.order_head, kind, "order_head", "false");
  require(m.num_kv_heads == m.num_heads, kind, "num_kv_heads", std::to_string(m.num_kv_heads));
  require(m.head_dim * m.num_heads == m.hidden_size, kind, "head_dim", std::to_string(m.head_dim));
}

OrderedJson write_gpt2(const ModelConfig& m) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", m.vocab_size},
          {"n_positions", m.max_positions},
          {"n_embd", m.hidden_size},
          {"n_layer", m.num_layers},
          {"n_head", m.num_heads},
          {"n_inner", m.ffn_hidden_size},
          {"activation_function", activation_name(m)},
          {"layer_norm_epsilon", m.norm_eps},
          {"resid_pdrop", m.hidden_dropout},
          {"embd_pdrop", m.hidden_dropout},
          {"attn_pdrop", m.attention_dropout},
          {"initializer_range", m.init_std},
          {"tie_word_embeddings", m.tie_embeddings}};
}

OrderedJson write_llama(const ModelConfig& m) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", m.vocab_size},
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
          {"rope_scaling", nullptr},
          {"attention_bias", m.qkv_bias},
          {"mlp_bias", m.bias},
          {"attention_dropout", m.attention_dropout},
          {"initializer_range", m.init_std},
          {"tie_word_embeddings", m.tie_embeddings}};
}

OrderedJson write_bert(const ModelConfig& m, bool megatron) {
  return {{"architectures", {megatron ? "MegatronBertForPreTraining" : "BertForPreTraining"}},
          {"model_type", megatron ? "megatron-bert" : "bert"},
          {"vocab_size", m.vocab_size},
          {"max_position_embeddings", m.max_positions},
          {"type_vocab_size", 2},
          {"hidden_size", m.hidden_size},
          {"intermediate_size", m.ffn_hidden_size},
          {"num_hidden_layers", m.num_layers},
          {"num_attention_heads", m.num_heads},
          {"hidden_act", activation_name(m)},
          {"layer_norm_eps", m.norm_eps},
          {"hidden_dropout_prob", m.hidden_dropout},
          {"attention_probs_dropout_prob", m.attention_dropout},
          {"initializer_range", m.init_std},
          {"tie_word_embeddings", m.tie_embeddings}};
}

// null where there is none: the defaults of some kinds name tokens.
void add_tokens(OrderedJson& json, const HuggingFaceTokens& tokens) {
  const auto id = [](std::int64_t token) {
    return token < 0 ? OrderedJson(nullptr) : OrderedJson(token);
  };
  json["bos_token_id"] = id(tokens.bos);
  json["eos_token_id"] = id(tokens.eos);
  if (!tokens.further_eos.empty()) {
    json["eos_token_id"] = OrderedJson::array({tokens.eos});
    for (const std::int64_t token : tokens.further_eos) json["eos_token_id"].push_back(token);
  }
  json["pad_token_id"] = id(tokens.pad);
}

// The ids behind a key, one or a list. Those outside of the vocabulary are defaults that a model
// with a smaller one never changed.
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
  } else if (type == "bert") {
    out = {HuggingFaceKind::bert, read_bert(json)};
    out.model.norm_placement = "post";
  } else if (type == "megatron-bert") {
    out = {HuggingFaceKind::megatron_bert, read_bert(json)};
  } else if (json.has("model_type")) {
    json.refuse("model_type", "known are gpt2, llama, bert and megatron-bert");
  } else {
    fail_input("'{}' lacks 'model_type'", name);
  }
  out.tokens = read_all_tokens(json, out.model.vocab_size);
  ModelConfig& m = out.model;
  m.seq_length = m.max_positions;
  // What the file says must not be taken for a default that the family may change.
  m.given = {"bias", "qkv_bias", "tie_embeddings", "norm_eps"};
  resolve(m);
  validate(m);
  return out;
}

HuggingFaceModel read_huggingface_config(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  if (!fs::exists(file)) {
    fail_input("'{}' is not a folder of a Hugging Face model: it has no config.json",
               folder.string());
  }
  return parse_huggingface_config(read_file(file, std::uint64_t{16} << 20), file.string());
}

HuggingFaceKind huggingface_kind(const ModelConfig& model) {
  if (model.family == "bert") {
    require_bert(model);
    return model.norm_placement == "post" ? HuggingFaceKind::bert : HuggingFaceKind::megatron_bert;
  }
  // The family is a set of defaults: what the keys say decides.
  if (model.norm == "rms_norm" || model.position == "rope") {
    require_llama(model);
    return HuggingFaceKind::llama;
  }
  require_gpt2(model);
  return HuggingFaceKind::gpt2;
}

std::string huggingface_config_text(const HuggingFaceModel& model, std::string_view torch_dtype) {
  OrderedJson json = model.kind == HuggingFaceKind::gpt2 ? write_gpt2(model.model)
                     : model.kind == HuggingFaceKind::llama
                         ? write_llama(model.model)
                         : write_bert(model.model, model.kind == HuggingFaceKind::megatron_bert);
  add_tokens(json, model.tokens);
  json["torch_dtype"] = torch_dtype;
  return json.dump(2) + "\n";
}

std::string huggingface_generation_text(const HuggingFaceTokens& tokens) {
  OrderedJson json = OrderedJson::object();
  add_tokens(json, tokens);
  return json.dump(2) + "\n";
}

}  // namespace trireme
