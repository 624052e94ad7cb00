// Writing config.json: for each kind of model its requirements and its keys.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/families.h"
#include "interop/huggingface_activations.h"
#include "interop/huggingface_config.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

const char* activation_name(const ModelConfig& model) {
  for (const auto& activation : huggingface_activations) {
    if (model.activation == activation.ours) return activation.theirs;
  }
  fail_input("model.activation = {} has no counterpart in this kind of Hugging Face model",
             model.activation);
}

// Refuses to export a setting that the kind of model does not have.
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
  require(!m.qk_norm, kind, "qk_norm", "true");
  require(m.activation != "swiglu", kind, "activation", m.activation);
  require(m.bias, kind, "bias", "false");
  require(m.qkv_bias, kind, "qkv_bias", "false");
  require(m.num_kv_heads == m.num_heads, kind, "num_kv_heads", std::to_string(m.num_kv_heads));
  require(m.head_dim * m.num_heads == m.hidden_size, kind, "head_dim", std::to_string(m.head_dim));
}

const char* class_of(HuggingFaceKind kind) {
  switch (kind) {
    case HuggingFaceKind::qwen2:
      return "Qwen2ForCausalLM";
    case HuggingFaceKind::qwen3:
      return "Qwen3ForCausalLM";
    default:
      return "LlamaForCausalLM";
  }
}

// Which relative of Llama computes what the keys say.
HuggingFaceKind kind_of_llama(const ModelConfig& m) {
  if (m.qk_norm) return HuggingFaceKind::qwen3;
  return m.qkv_bias && !m.bias ? HuggingFaceKind::qwen2 : HuggingFaceKind::llama;
}

void require_llama(const ModelConfig& m) {
  const char* kind = class_of(kind_of_llama(m));
  require(m.position == "rope", kind, "position", m.position);
  require(m.norm == "rms_norm", kind, "norm", m.norm);
  require(m.activation == "swiglu", kind, "activation", m.activation);
  if (m.qk_norm) {
    require(!m.bias, kind, "bias", "true");
    require(!m.qkv_bias, kind, "qkv_bias", "true");
  } else {
    require(m.qkv_bias || !m.bias, kind, "qkv_bias", "false");
  }
  require(m.rope_percent == 1, kind, "rope_percent", fmt::format("{}", m.rope_percent));
}

void require_bert(const ModelConfig& m) {
  const char* kind = "BERT";
  require(m.position == "learned", kind, "position", m.position);
  require(!m.qk_norm, kind, "qk_norm", "true");
  require(m.norm == "layer_norm", kind, "norm", m.norm);
  require(m.activation != "swiglu", kind, "activation", m.activation);
  require(m.bias, kind, "bias", "false");
  require(m.qkv_bias, kind, "qkv_bias", "false");
  require(m.order_head, kind, "order_head", "false");
  require(m.num_kv_heads == m.num_heads, kind, "num_kv_heads", std::to_string(m.num_kv_heads));
  require(m.head_dim * m.num_heads == m.hidden_size, kind, "head_dim", std::to_string(m.head_dim));
}

Json write_gpt2(const ModelConfig& m) {
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

// In a spelling that every version of transformers reads: those before 4.43 expect exactly "type"
// and "factor", and do not support llama3.
Json rope_scaling(const ModelConfig& m) {
  if (m.rope_scaling == "none") return nullptr;
  if (m.rope_scaling == "linear") {
    return {{"type", "linear"}, {"factor", m.rope_scaling_factor}};
  }
  return {{"rope_type", m.rope_scaling},
          {"factor", m.rope_scaling_factor},
          {"low_freq_factor", m.rope_low_freq_factor},
          {"high_freq_factor", m.rope_high_freq_factor},
          {"original_max_position_embeddings", m.rope_original_length}};
}

Json write_llama(const ModelConfig& m, HuggingFaceKind kind) {
  Json json = {{"architectures", {class_of(kind)}},
               {"model_type", kind == HuggingFaceKind::qwen2   ? "qwen2"
                              : kind == HuggingFaceKind::qwen3 ? "qwen3"
                                                               : "llama"},
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
               {"rope_scaling", rope_scaling(m)},
               {"attention_dropout", m.attention_dropout},
               {"initializer_range", m.init_std},
               {"tie_word_embeddings", m.tie_embeddings}};
  if (kind == HuggingFaceKind::llama) {
    json["attention_bias"] = m.qkv_bias;
    json["mlp_bias"] = m.bias;
  } else {
    json["use_sliding_window"] = false;
  }
  if (kind == HuggingFaceKind::qwen3) json["attention_bias"] = false;
  return json;
}

Json write_bert(const ModelConfig& m, bool megatron) {
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

// Written as null where there is no such token, because the default of some kinds is a token.
void add_tokens(Json& json, const HuggingFaceTokens& tokens) {
  const auto id = [](std::int64_t token) { return token < 0 ? Json(nullptr) : Json(token); };
  json["bos_token_id"] = id(tokens.bos);
  json["eos_token_id"] = id(tokens.eos);
  if (!tokens.further_eos.empty()) {
    json["eos_token_id"] = Json::array({tokens.eos});
    for (const std::int64_t token : tokens.further_eos) json["eos_token_id"].push_back(token);
  }
  json["pad_token_id"] = id(tokens.pad);
}

}  // namespace

HuggingFaceKind huggingface_kind(const ModelConfig& model) {
  if (family_of(model).architecture == Architecture::encoder) {
    require_bert(model);
    return model.norm_placement == "post" ? HuggingFaceKind::bert : HuggingFaceKind::megatron_bert;
  }
  // The family is only a set of defaults: the keys themselves decide.
  if (model.norm == "rms_norm" || model.position == "rope") {
    require_llama(model);
    return kind_of_llama(model);
  }
  require_gpt2(model);
  return HuggingFaceKind::gpt2;
}

std::string huggingface_config_text(const HuggingFaceModel& model, std::string_view torch_dtype) {
  const bool megatron = model.kind == HuggingFaceKind::megatron_bert;
  Json json = model.kind == HuggingFaceKind::gpt2 ? write_gpt2(model.model)
              : megatron || model.kind == HuggingFaceKind::bert
                  ? write_bert(model.model, megatron)
                  : write_llama(model.model, model.kind);
  add_tokens(json, model.tokens);
  json["torch_dtype"] = torch_dtype;
  return json.dump(2) + "\n";
}

std::string huggingface_generation_text(const HuggingFaceTokens& tokens) {
  Json json = Json::object();
  add_tokens(json, tokens);
  return json.dump(2) + "\n";
}

}  // namespace trireme
