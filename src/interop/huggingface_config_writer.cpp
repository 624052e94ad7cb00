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

template <class Value>
void require_expert(bool good, const char* kind, const char* key, const Value& value) {
  if (!good)
    fail_input("cannot export to Hugging Face: {} has no counterpart for moe.{} = {}", kind, key,
               value);
}

// What routers of both kinds with experts cannot do.
void require_plain_router(const ModelConfig& m, const char* kind) {
  const ExpertConfig& moe = m.moe;
  require_expert(moe.score == "softmax", kind, "score", moe.score);
  require_expert(moe.scaling_factor == 1, kind, "scaling_factor", moe.scaling_factor);
  require_expert(moe.num_groups == 1, kind, "num_groups", moe.num_groups);
  require_expert(!moe.expert_bias, kind, "expert_bias", moe.expert_bias);
}

void require_qwen2_moe(const ModelConfig& m) {
  const char* kind = "Qwen2MoeForCausalLM";
  require_plain_router(m, kind);
  require_expert(m.moe.shared_gate, kind, "shared_gate", m.moe.shared_gate);
  require(m.head_dim * m.num_heads == m.hidden_size, kind, "head_dim", std::to_string(m.head_dim));
}

void require_mixtral(const ModelConfig& m) {
  const ExpertConfig& moe = m.moe;
  require_plain_router(m, "MixtralForCausalLM");
  require_expert(moe.normalize_weights, "MixtralForCausalLM", "normalize_weights",
                 moe.normalize_weights);
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
    if (moe.in_layer(layer)) continue;
    fail_input(
        "cannot export to Hugging Face: all layers of MixtralForCausalLM have experts, and layer "
        "{} has none (moe.layers, moe.first_layer, moe.layer_interval)",
        layer);
  }
  require(!m.qkv_bias, "MixtralForCausalLM", "qkv_bias", "true");
}

// Which relative of Llama computes what the keys say.
HuggingFaceKind kind_of_llama(const ModelConfig& m) {
  if (m.moe.shared_ffn_hidden_size > 0) return HuggingFaceKind::qwen2_moe;
  if (m.moe.num_experts > 0) return HuggingFaceKind::mixtral;
  if (m.qk_norm) return HuggingFaceKind::qwen3;
  return m.qkv_bias && !m.bias ? HuggingFaceKind::qwen2 : HuggingFaceKind::llama;
}

void require_llama(const ModelConfig& m) {
  const char* kind = huggingface_class(kind_of_llama(m));
  require(m.position == "rope", kind, "position", m.position);
  require(m.norm == "rms_norm", kind, "norm", m.norm);
  require(m.activation == "swiglu", kind, "activation", m.activation);
  if (m.moe.num_experts > 0) {
    require(!m.qk_norm, kind, "qk_norm", "true");
  } else if (m.qk_norm) {
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
  return {{"architectures", {huggingface_class(HuggingFaceKind::gpt2)}},
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
  if (m.rope_scaling == "yarn") {
    Json yarn = {{"rope_type", "yarn"},
                 {"factor", m.rope_scaling_factor},
                 {"beta_fast", m.rope_beta_fast},
                 {"beta_slow", m.rope_beta_slow},
                 {"original_max_position_embeddings", m.rope_original_length}};
    if (m.rope_attention_factor > 0) yarn["attention_factor"] = m.rope_attention_factor;
    return yarn;
  }
  return {{"rope_type", m.rope_scaling},
          {"factor", m.rope_scaling_factor},
          {"low_freq_factor", m.rope_low_freq_factor},
          {"high_freq_factor", m.rope_high_freq_factor},
          {"original_max_position_embeddings", m.rope_original_length}};
}

Json write_llama(const ModelConfig& m, HuggingFaceKind kind) {
  Json json = {{"architectures", {huggingface_class(kind)}},
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

Json write_mixtral(const ModelConfig& m) {
  Json json = write_llama(m, HuggingFaceKind::mixtral);
  json["model_type"] = "mixtral";
  json["intermediate_size"] = m.moe.ffn_hidden_size;
  json.erase("use_sliding_window");
  json["num_local_experts"] = m.moe.num_experts;
  json["num_experts_per_tok"] = m.moe.top_k;
  json["router_aux_loss_coef"] =
      m.moe.aux_loss_coeff * static_cast<double>(m.num_layers) / static_cast<double>(m.moe.top_k);
  json["router_jitter_noise"] = 0.0;
  json["sliding_window"] = nullptr;
  return json;
}

// Layers are told by their distance where that is how transformers counts, else by those without
// experts.
Json write_qwen2_moe(const ModelConfig& m) {
  const ExpertConfig& moe = m.moe;
  Json json = write_llama(m, HuggingFaceKind::qwen2_moe);
  json["model_type"] = "qwen2_moe";
  json.erase("head_dim");
  json["qkv_bias"] = m.qkv_bias;
  json["use_sliding_window"] = false;
  json["num_experts"] = moe.num_experts;
  json["num_experts_per_tok"] = moe.top_k;
  json["moe_intermediate_size"] = moe.ffn_hidden_size;
  json["shared_expert_intermediate_size"] = moe.shared_ffn_hidden_size;
  json["norm_topk_prob"] = moe.normalize_weights;
  json["router_aux_loss_coef"] =
      moe.aux_loss_coeff * static_cast<double>(m.num_layers) / static_cast<double>(moe.top_k);
  const bool regular = moe.layers.empty() && moe.first_layer == moe.layer_interval - 1;
  json["decoder_sparse_step"] = regular ? moe.layer_interval : 1;
  Json dense = Json::array();
  for (std::int64_t layer = 0; !regular && layer < m.num_layers; ++layer)
    if (!moe.in_layer(layer)) dense.push_back(layer);
  json["mlp_only_layers"] = dense;
  return json;
}

Json write_bert(const ModelConfig& m, bool megatron) {
  return {{"architectures",
           {huggingface_class(megatron ? HuggingFaceKind::megatron_bert : HuggingFaceKind::bert)}},
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

Json write_model(const HuggingFaceModel& model) {
  switch (model.kind) {
    case HuggingFaceKind::gpt2:
      return write_gpt2(model.model);
    case HuggingFaceKind::mixtral:
      return write_mixtral(model.model);
    case HuggingFaceKind::qwen2_moe:
      return write_qwen2_moe(model.model);
    case HuggingFaceKind::bert:
    case HuggingFaceKind::megatron_bert:
      return write_bert(model.model, model.kind == HuggingFaceKind::megatron_bert);
    default:
      return write_llama(model.model, model.kind);
  }
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

const char* huggingface_class(HuggingFaceKind kind) {
  switch (kind) {
    case HuggingFaceKind::gpt2:
      return "GPT2LMHeadModel";
    case HuggingFaceKind::llama:
      return "LlamaForCausalLM";
    case HuggingFaceKind::qwen2:
      return "Qwen2ForCausalLM";
    case HuggingFaceKind::qwen3:
      return "Qwen3ForCausalLM";
    case HuggingFaceKind::mixtral:
      return "MixtralForCausalLM";
    case HuggingFaceKind::qwen2_moe:
      return "Qwen2MoeForCausalLM";
    case HuggingFaceKind::bert:
      return "BertForPreTraining";
    case HuggingFaceKind::megatron_bert:
      return "MegatronBertForPreTraining";
  }
  return "?";
}

HuggingFaceKind huggingface_kind(const ModelConfig& model) {
  if (family_of(model).architecture == Architecture::encoder) {
    require_bert(model);
    return model.norm_placement == "post" ? HuggingFaceKind::bert : HuggingFaceKind::megatron_bert;
  }
  // The family is only a set of defaults: the keys themselves decide.
  if (model.moe.shared_ffn_hidden_size > 0) {
    require_llama(model);
    require_qwen2_moe(model);
    return HuggingFaceKind::qwen2_moe;
  }
  if (model.moe.num_experts > 0) {
    require_llama(model);
    require_mixtral(model);
    return HuggingFaceKind::mixtral;
  }
  if (model.norm == "rms_norm" || model.position == "rope") {
    require_llama(model);
    return kind_of_llama(model);
  }
  require_gpt2(model);
  return HuggingFaceKind::gpt2;
}

std::string huggingface_config_text(const HuggingFaceModel& model, std::string_view torch_dtype) {
  Json json = write_model(model);
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
