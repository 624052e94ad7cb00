// Writing config.json: for each kind of model its keys.
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/huggingface/activations.h"
#include "formats/huggingface/config.h"

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

Json write_bloom(const ModelConfig& m) {
  return {{"architectures", {huggingface_class(HuggingFaceKind::bloom)}},
          {"model_type", "bloom"},
          {"vocab_size", m.vocab_size},
          {"seq_length", m.max_positions},
          {"hidden_size", m.hidden_size},
          {"n_layer", m.num_layers},
          {"n_head", m.num_heads},
          {"layer_norm_epsilon", m.norm_eps},
          {"apply_residual_connection_post_layernorm", false},
          {"hidden_dropout", m.hidden_dropout},
          {"attention_dropout", m.attention_dropout},
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
    if (!m.rope_truncate) yarn["truncate"] = false;
    return yarn;
  }
  return {{"rope_type", m.rope_scaling},
          {"factor", m.rope_scaling_factor},
          {"low_freq_factor", m.rope_low_freq_factor},
          {"high_freq_factor", m.rope_high_freq_factor},
          {"original_max_position_embeddings", m.rope_original_length}};
}

Json write_llama(const ModelConfig& m, HuggingFaceKind kind) {
  return {{"architectures", {huggingface_class(kind)}},
          {"model_type", huggingface_model_type(kind)},
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
}

// Null where there is no window, since some kinds assume one where the key is absent.
void add_window(Json& json, const ModelConfig& m) {
  json["sliding_window"] = m.attention_window > 0 ? Json(m.attention_window) : Json(nullptr);
}

void add_layer_types(Json& json, const ModelConfig& m) {
  Json types = Json::array();
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
    types.push_back(m.window_in_layer(layer) ? "sliding_attention" : "full_attention");
  json["layer_types"] = types;
}

// Qwen's windows: of the layers from one on, or of those that layer_types names.
void add_qwen_window(Json& json, const ModelConfig& m) {
  json["use_sliding_window"] = m.attention_window > 0;
  if (m.attention_window == 0) return;
  add_window(json, m);
  std::int64_t first = 0;
  while (!m.window_in_layer(first)) ++first;
  json["max_window_layers"] = first;
  const auto with = static_cast<std::int64_t>(m.window_layers.size());
  if (with == 0 || first + with == m.num_layers) return;
  add_layer_types(json, m);
}

// Without a window no layer has its type, and the number does nothing.
void add_gemma2(Json& json, const ModelConfig& m) {
  const auto cap = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  json["hidden_activation"] = json["hidden_act"];
  json["attention_bias"] = false;
  json["query_pre_attn_scalar"] = m.attention_scale > 0
                                      ? std::llround(1 / (m.attention_scale * m.attention_scale))
                                      : m.head_dim;
  json["attn_logit_softcapping"] = cap(m.attention_soft_cap);
  json["final_logit_softcapping"] = cap(m.logit_soft_cap);
  json["sliding_window"] = m.attention_window > 0 ? m.attention_window : 4096;
  add_layer_types(json, m);
}

Json write_dense_llama(const ModelConfig& m, HuggingFaceKind kind) {
  Json json = write_llama(m, kind);
  switch (kind) {
    case HuggingFaceKind::llama:
      json["attention_bias"] = m.qkv_bias;
      json["mlp_bias"] = m.bias;
      break;
    case HuggingFaceKind::mistral:
      add_window(json, m);
      break;
    case HuggingFaceKind::gemma:
      json["hidden_act"] = json["hidden_activation"] = "gelu_pytorch_tanh";
      json["attention_bias"] = false;
      break;
    case HuggingFaceKind::gemma2:
      json["hidden_act"] = "gelu_pytorch_tanh";
      add_gemma2(json, m);
      break;
    case HuggingFaceKind::olmo2:
      json["attention_bias"] = false;
      break;
    default:
      add_qwen_window(json, m);
      if (kind == HuggingFaceKind::qwen3) json["attention_bias"] = false;
  }
  return json;
}

void add_experts(Json& json, const ModelConfig& m, const char* count) {
  json[count] = m.moe.num_experts;
  json["num_experts_per_tok"] = m.moe.top_k;
  json["router_aux_loss_coef"] =
      m.moe.aux_loss_coeff * static_cast<double>(m.num_layers) / static_cast<double>(m.moe.top_k);
}

// Layers are told by their distance where that is how transformers counts, else by those without
// experts.
void add_sparse_layers(Json& json, const ModelConfig& m) {
  const ExpertConfig& moe = m.moe;
  json["moe_intermediate_size"] = moe.ffn_hidden_size;
  json["norm_topk_prob"] = moe.normalize_weights;
  const bool regular = moe.layers.empty() && moe.first_layer == moe.layer_interval - 1;
  json["decoder_sparse_step"] = regular ? moe.layer_interval : 1;
  Json dense = Json::array();
  for (std::int64_t layer = 0; !regular && layer < m.num_layers; ++layer)
    if (!moe.in_layer(layer)) dense.push_back(layer);
  json["mlp_only_layers"] = dense;
}

Json write_mixtral(const ModelConfig& m) {
  Json json = write_llama(m, HuggingFaceKind::mixtral);
  json["intermediate_size"] = m.moe.ffn_hidden_size;
  add_experts(json, m, "num_local_experts");
  json["router_jitter_noise"] = 0.0;
  add_window(json, m);
  return json;
}

Json write_qwen2_moe(const ModelConfig& m) {
  Json json = write_llama(m, HuggingFaceKind::qwen2_moe);
  json.erase("head_dim");
  json["qkv_bias"] = m.qkv_bias;
  json["use_sliding_window"] = m.attention_window > 0;
  if (m.attention_window > 0) {
    add_window(json, m);
    add_layer_types(json, m);
  }
  add_experts(json, m, "num_experts");
  json["shared_expert_intermediate_size"] = m.moe.shared_ffn_hidden_size;
  add_sparse_layers(json, m);
  return json;
}

Json write_qwen3_moe(const ModelConfig& m) {
  Json json = write_llama(m, HuggingFaceKind::qwen3_moe);
  json["attention_bias"] = false;
  json["use_sliding_window"] = m.attention_window > 0;
  add_window(json, m);
  add_experts(json, m, "num_experts");
  add_sparse_layers(json, m);
  return json;
}

Json write_olmoe(const ModelConfig& m) {
  Json json = write_llama(m, HuggingFaceKind::olmoe);
  json.erase("head_dim");
  json["intermediate_size"] = m.moe.ffn_hidden_size;
  json["attention_bias"] = false;
  json["clip_qkv"] = nullptr;
  add_experts(json, m, "num_experts");
  json["norm_topk_prob"] = m.moe.normalize_weights;
  return json;
}

// The two from which transformers computes what multiplies rotary tables and scores.
void add_mscales(Json& rope, const ModelConfig& m) {
  if (m.attention_scale == 0) return;
  const double steps = 0.1 * std::log(m.rope_scaling_factor);
  const double all = std::sqrt(m.attention_scale * std::sqrt(static_cast<double>(m.head_dim)));
  const double amplitude = m.rope_attention_factor > 0 ? m.rope_attention_factor : steps + 1;
  // Rounded so far that a number which was read comes back.
  const auto rounded = [](double value) { return std::round(value * 1e12) / 1e12; };
  rope["mscale_all_dim"] = rounded((all - 1) / steps);
  rope["mscale"] = rounded((amplitude * all - 1) / steps);
  rope.erase("attention_factor");
}

Json write_deepseek(const ModelConfig& m) {
  Json json = write_llama(m, HuggingFaceKind::deepseek_v3);
  const ExpertConfig& moe = m.moe;
  const bool sparse = moe.num_experts > 0;
  std::int64_t dense = 0;
  while (dense < m.num_layers && !moe.in_layer(dense)) ++dense;
  json["head_dim"] = m.qk_rope_head_dim;
  if (m.rope_scaling == "yarn") add_mscales(json["rope_scaling"], m);
  json["rope_interleave"] = true;
  json["attention_bias"] = false;
  json["kv_lora_rank"] = m.kv_lora_rank;
  json["q_lora_rank"] = m.q_lora_rank > 0 ? Json(m.q_lora_rank) : Json(nullptr);
  json["qk_nope_head_dim"] = m.qk_nope_head_dim;
  json["qk_rope_head_dim"] = m.qk_rope_head_dim;
  json["v_head_dim"] = m.v_head_dim;
  json["first_k_dense_replace"] = dense;
  json["moe_layer_freq"] = 1;
  json["num_nextn_predict_layers"] = 0;
  if (!sparse) return json;
  json["n_routed_experts"] = moe.num_experts;
  json["num_experts_per_tok"] = moe.top_k;
  json["moe_intermediate_size"] = moe.ffn_hidden_size;
  json["n_shared_experts"] = moe.shared_ffn_hidden_size / moe.ffn_hidden_size;
  json["scoring_func"] = "sigmoid";
  json["topk_method"] = "noaux_tc";
  json["n_group"] = moe.num_groups;
  json["topk_group"] = moe.top_groups;
  json["norm_topk_prob"] = moe.normalize_weights && moe.top_k > 1;  // a single score stays here
  json["routed_scaling_factor"] = moe.scaling_factor;
  json["aux_loss_alpha"] = moe.aux_loss_coeff;
  json["seq_aux"] = moe.aux_loss == "sequence";
  return json;
}

Json write_bert(const ModelConfig& m, HuggingFaceKind kind) {
  return {{"architectures", {huggingface_class(kind, m)}},
          {"model_type", huggingface_model_type(kind)},
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
    case HuggingFaceKind::bloom:
      return write_bloom(model.model);
    case HuggingFaceKind::mixtral:
      return write_mixtral(model.model);
    case HuggingFaceKind::qwen2_moe:
      return write_qwen2_moe(model.model);
    case HuggingFaceKind::qwen3_moe:
      return write_qwen3_moe(model.model);
    case HuggingFaceKind::olmoe:
      return write_olmoe(model.model);
    case HuggingFaceKind::deepseek_v3:
      return write_deepseek(model.model);
    case HuggingFaceKind::bert:
    case HuggingFaceKind::megatron_bert:
      return write_bert(model.model, model.kind);
    default:
      return write_dense_llama(model.model, model.kind);
  }
}

// Written as null where there is no such token, because the default of some kinds is a token.
void add_tokens(Json& json, const SpecialTokens& tokens) {
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

std::string huggingface_config_text(const HuggingFaceModel& model, std::string_view torch_dtype) {
  Json json = write_model(model);
  add_tokens(json, model.tokens);
  json["torch_dtype"] = torch_dtype;
  return json.dump(2) + "\n";
}

std::string huggingface_generation_text(const SpecialTokens& tokens) {
  Json json = Json::object();
  add_tokens(json, tokens);
  return json.dump(2) + "\n";
}

std::string huggingface_note(const ModelConfig& model) {
  if (!model.moe.keeps_load()) return "";
  return "moe.aux_loss = \"global\" and what it has counted are left out, which config.json has no "
         "key for: the model computes the same, and elsewhere its experts are balanced in another "
         "way";
}

}  // namespace trireme
