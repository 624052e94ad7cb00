// Which kind of model transformers computes the same with, and why none does.
#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"
#include "config/families.h"
#include "formats/huggingface/config.h"

namespace trireme {
namespace {

// Refuses to export a setting that the kind of model does not have.
void require(bool good, const char* kind, const char* key, const std::string& value) {
  if (!good) {
    fail_input("cannot export to Hugging Face: {} has no counterpart for model.{} = {}", kind, key,
               value);
  }
}

// What only one kind has.
void require_no_caps(const ModelConfig& m, const char* kind) {
  require(m.attention_soft_cap == 0, kind, "attention_soft_cap",
          fmt::format("{}", m.attention_soft_cap));
  require(m.logit_soft_cap == 0, kind, "logit_soft_cap", fmt::format("{}", m.logit_soft_cap));
}

void require_plain_attention(const ModelConfig& m, const char* kind) {
  require_no_caps(m, kind);
  require(!m.is_latent(), kind, "kv_lora_rank", std::to_string(m.kv_lora_rank));
  require(m.attention_scale == 0, kind, "attention_scale", fmt::format("{}", m.attention_scale));
}

void require_no_scalings(const ModelConfig& m, const char* kind) {
  require_plain_attention(m, kind);
  require(!m.embedding_norm, kind, "embedding_norm", "true");
  require(!m.zero_centred_norms, kind, "zero_centred_norms", "true");
  require(!m.scale_embedding, kind, "scale_embedding", "true");
}

void require_gpt2(const ModelConfig& m) {
  const char* kind = "GPT2LMHeadModel";
  require_no_scalings(m, kind);
  require(m.position == "learned", kind, "position", m.position);
  require(m.norm == "layer_norm", kind, "norm", m.norm);
  require(!m.qk_norm, kind, "qk_norm", "true");
  require(!has_gate(m), kind, "activation", m.activation);
  require(m.bias, kind, "bias", "false");
  require(m.qkv_bias, kind, "qkv_bias", "false");
  require(m.num_kv_heads == m.num_heads, kind, "num_kv_heads", std::to_string(m.num_kv_heads));
  require(m.head_dim * m.num_heads == m.hidden_size, kind, "head_dim", std::to_string(m.head_dim));
  require(m.norm_placement == "pre", kind, "norm_placement", m.norm_placement);
  require(m.attention_window == 0, kind, "attention_window", std::to_string(m.attention_window));
}

void require_bloom(const ModelConfig& m) {
  const char* kind = "BloomForCausalLM";
  require_plain_attention(m, kind);
  require(m.embedding_norm, kind, "embedding_norm", "false");
  require(!m.zero_centred_norms, kind, "zero_centred_norms", "true");
  require(!m.scale_embedding, kind, "scale_embedding", "true");
  require(m.norm == "layer_norm", kind, "norm", m.norm);
  require(!m.qk_norm, kind, "qk_norm", "true");
  require(m.activation == "gelu_tanh", kind, "activation", m.activation);
  require(m.bias, kind, "bias", "false");
  require(m.qkv_bias, kind, "qkv_bias", "false");
  require(m.ffn_hidden_size == 4 * m.hidden_size, kind, "ffn_hidden_size",
          std::to_string(m.ffn_hidden_size));
  require(m.num_kv_heads == m.num_heads, kind, "num_kv_heads", std::to_string(m.num_kv_heads));
  require(m.head_dim * m.num_heads == m.hidden_size, kind, "head_dim", std::to_string(m.head_dim));
  require(m.norm_placement == "pre", kind, "norm_placement", m.norm_placement);
  require(m.attention_window == 0, kind, "attention_window", std::to_string(m.attention_window));
}

template <class Value>
void require_expert(bool good, const char* kind, const char* key, const Value& value) {
  if (!good)
    fail_input("cannot export to Hugging Face: {} has no counterpart for moe.{} = {}", kind, key,
               value);
}

// Layers of every kind have as many experts as each other.
void require_even(const ExpertConfig& moe, const char* kind) {
  for (const std::int64_t number : moe.experts_by_layer)
    require_expert(number == moe.num_experts, kind, "experts_by_layer",
                   fmt::format("[{}]", fmt::join(moe.experts_by_layer, ", ")));
}

// What routers of no kind with experts can do.
void require_plain_router(const ModelConfig& m, const char* kind) {
  const ExpertConfig& moe = m.moe;
  require_even(moe, kind);
  require_expert(moe.score == "softmax", kind, "score", moe.score);
  require_expert(moe.scaling_factor == 1, kind, "scaling_factor", moe.scaling_factor);
  require_expert(moe.num_groups == 1, kind, "num_groups", moe.num_groups);
  require_expert(!moe.expert_bias, kind, "expert_bias", moe.expert_bias);
  require_expert(!moe.residual, kind, "residual", moe.residual);
}

// The first layers are dense, and all others have experts.
void require_deepseek(const ModelConfig& m) {
  const char* kind = "DeepseekV3ForCausalLM";
  const ExpertConfig& moe = m.moe;
  require_no_caps(m, kind);
  const double latent_eps = m.latent_norm_eps > 0 ? m.latent_norm_eps : m.norm_eps;
  require(latent_eps == huggingface_latent_eps, kind,
          m.latent_norm_eps > 0 ? "latent_norm_eps" : "norm_eps", fmt::format("{}", latent_eps));
  require(m.norm_placement == "pre", kind, "norm_placement", m.norm_placement);
  require(!m.zero_centred_norms, kind, "zero_centred_norms", "true");
  require(!m.scale_embedding, kind, "scale_embedding", "true");
  const double all = std::sqrt(m.attention_scale * std::sqrt(static_cast<double>(m.head_dim)));
  const bool scales = m.rope_scaling == "yarn" && m.rope_scaling_factor > 1 && all > 1;
  require(m.attention_scale == 0 || scales, kind, "attention_scale",
          fmt::format("{}", m.attention_scale));
  // transformers takes an mscale of 0 for one that is absent, and there is none below.
  require(
      m.attention_scale == 0 || m.rope_attention_factor == 0 || m.rope_attention_factor * all > 1,
      kind, "rope_attention_factor", fmt::format("{}", m.rope_attention_factor));
  if (moe.num_experts == 0) return;
  require_even(moe, kind);
  require_expert(moe.score == "sigmoid", kind, "score", moe.score);
  require_expert(moe.expert_bias, kind, "expert_bias", moe.expert_bias);
  require_expert(!moe.residual, kind, "residual", moe.residual);
  require_expert(!moe.shared_gate, kind, "shared_gate", moe.shared_gate);
  require_expert(
      moe.shared_ffn_hidden_size > 0 && moe.shared_ffn_hidden_size % moe.ffn_hidden_size == 0, kind,
      "shared_ffn_hidden_size", moe.shared_ffn_hidden_size);
  require_expert(moe.num_groups == 1 || moe.top_k == 2 * moe.top_groups, kind, "top_groups",
                 moe.top_groups);
  bool sparse = false;
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
    require_expert(!sparse || moe.in_layer(layer), kind, "layer_interval", moe.layer_interval);
    sparse = moe.in_layer(layer);
  }
}

void require_qwen2_moe(const ModelConfig& m) {
  const char* kind = "Qwen2MoeForCausalLM";
  require_expert(m.moe.shared_gate, kind, "shared_gate", m.moe.shared_gate);
  require(!m.qk_norm, kind, "qk_norm", "true");
  require(m.head_dim * m.num_heads == m.hidden_size, kind, "head_dim", std::to_string(m.head_dim));
}

void require_experts_everywhere(const ModelConfig& m, const char* kind) {
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
    if (m.moe.in_layer(layer)) continue;
    fail_input(
        "cannot export to Hugging Face: all layers of {} have experts, and layer {} has none "
        "(moe.layers, moe.first_layer, moe.layer_interval)",
        kind, layer);
  }
}

void require_mixtral(const ModelConfig& m) {
  const char* kind = "MixtralForCausalLM";
  require_expert(m.moe.normalize_weights, kind, "normalize_weights", m.moe.normalize_weights);
  require_experts_everywhere(m, kind);
  require(!m.qkv_bias, kind, "qkv_bias", "true");
}

void require_olmoe(const ModelConfig& m) {
  const char* kind = "OlmoeForCausalLM";
  require_experts_everywhere(m, kind);
  require(m.head_dim * m.num_heads == m.hidden_size, kind, "head_dim", std::to_string(m.head_dim));
}

// Which relative of Llama computes what the keys say.
HuggingFaceKind kind_of_llama(const ModelConfig& m) {
  if (m.is_latent()) return HuggingFaceKind::deepseek_v3;
  const bool over_all_heads = m.qk_norm && m.qk_norm_over == "all_heads";
  if (m.norm_placement == "both" || m.attention_soft_cap > 0 || m.logit_soft_cap > 0)
    return HuggingFaceKind::gemma2;
  if (m.activation == "geglu" || m.zero_centred_norms || m.scale_embedding)
    return HuggingFaceKind::gemma;
  if (m.norm_placement == "output") return HuggingFaceKind::olmo2;
  if (m.moe.shared_ffn_hidden_size > 0) return HuggingFaceKind::qwen2_moe;
  if (m.moe.num_experts > 0) {
    return over_all_heads ? HuggingFaceKind::olmoe
           : m.qk_norm    ? HuggingFaceKind::qwen3_moe
                          : HuggingFaceKind::mixtral;
  }
  if (m.qk_norm) return over_all_heads ? HuggingFaceKind::olmo2 : HuggingFaceKind::qwen3;
  if (m.qkv_bias && !m.bias) return HuggingFaceKind::qwen2;
  return m.attention_window > 0 ? HuggingFaceKind::mistral : HuggingFaceKind::llama;
}

// Norms, windows and biases of those without experts, and of the attention of all.
void require_parts(const ModelConfig& m, HuggingFaceKind kind) {
  const char* name = huggingface_class(kind);
  const bool windows = kind != HuggingFaceKind::llama && kind != HuggingFaceKind::gemma &&
                       kind != HuggingFaceKind::olmo2 && kind != HuggingFaceKind::olmoe &&
                       kind != HuggingFaceKind::deepseek_v3;
  require(windows || m.attention_window == 0, name, "attention_window",
          std::to_string(m.attention_window));
  const bool some_windows = kind == HuggingFaceKind::qwen2 || kind == HuggingFaceKind::qwen3 ||
                            kind == HuggingFaceKind::gemma2 || kind == HuggingFaceKind::qwen2_moe;
  require(some_windows || m.window_layers.empty(), name, "window_layers",
          fmt::format("[{}]", fmt::join(m.window_layers, ", ")));
  if (kind == HuggingFaceKind::llama)
    return require(m.qkv_bias || !m.bias, name, "qkv_bias", "false");
  require(!m.bias, name, "bias", "true");
  const bool any_qkv_bias = kind == HuggingFaceKind::qwen2 || kind == HuggingFaceKind::qwen2_moe;
  require(any_qkv_bias || !m.qkv_bias, name, "qkv_bias", "true");
}

void require_olmo2(const ModelConfig& m) {
  const char* kind = "Olmo2ForCausalLM";
  require(m.norm_placement == "output", kind, "norm_placement", m.norm_placement);
  require(m.qk_norm, kind, "qk_norm", "false");
  require(m.qk_norm_over == "all_heads", kind, "qk_norm_over", m.qk_norm_over);
  require_expert(m.moe.num_experts == 0, kind, "num_experts", m.moe.num_experts);
}

void require_gemma(const ModelConfig& m, const char* kind, const char* norm_placement) {
  require(m.activation == "geglu", kind, "activation", m.activation);
  require(m.zero_centred_norms, kind, "zero_centred_norms", "false");
  require(m.scale_embedding, kind, "scale_embedding", "false");
  require(m.norm_placement == norm_placement, kind, "norm_placement", m.norm_placement);
  require(!m.qk_norm, kind, "qk_norm", "true");
  require_expert(m.moe.num_experts == 0, kind, "num_experts", m.moe.num_experts);
}

// Scores are divided by the root of a whole number there: transformers takes no fraction.
void require_gemma2(const ModelConfig& m) {
  const char* kind = "Gemma2ForCausalLM";
  require_gemma(m, kind, "both");
  if (m.attention_scale == 0) return;
  const double width = 1 / (m.attention_scale * m.attention_scale);
  require(std::abs(width - std::round(width)) <= 1e-9 * width, kind, "attention_scale",
          fmt::format("{}", m.attention_scale));
}

HuggingFaceKind require_llama(const ModelConfig& m) {
  const HuggingFaceKind kind = kind_of_llama(m);
  const char* name = huggingface_class(kind);
  require(m.position == "rope", name, "position", m.position);
  require(m.norm == "rms_norm", name, "norm", m.norm);
  require(!m.embedding_norm, name, "embedding_norm", "true");
  if (kind == HuggingFaceKind::gemma)
    require_gemma(m, name, "pre");
  else if (kind == HuggingFaceKind::gemma2)
    require_gemma2(m);
  else
    require(m.activation == "swiglu", name, "activation", m.activation);
  require(m.rope_percent == 1, name, "rope_percent", fmt::format("{}", m.rope_percent));
  if (kind == HuggingFaceKind::deepseek_v3)
    require_deepseek(m);
  else if (kind != HuggingFaceKind::gemma2)
    require_plain_attention(m, name);
  if (m.moe.num_experts > 0 && kind != HuggingFaceKind::deepseek_v3) require_plain_router(m, name);
  require_parts(m, kind);
  if (kind == HuggingFaceKind::olmo2) require_olmo2(m);
  if (kind == HuggingFaceKind::mixtral) require_mixtral(m);
  if (kind == HuggingFaceKind::qwen2_moe) require_qwen2_moe(m);
  if (kind == HuggingFaceKind::olmoe) require_olmoe(m);
  return kind;
}

void require_bert(const ModelConfig& m) {
  const char* kind = "BERT";
  require_no_scalings(m, kind);
  require(m.position == "learned", kind, "position", m.position);
  require(!m.qk_norm, kind, "qk_norm", "true");
  require(m.norm == "layer_norm", kind, "norm", m.norm);
  require(!has_gate(m), kind, "activation", m.activation);
  require(m.bias, kind, "bias", "false");
  require(m.qkv_bias, kind, "qkv_bias", "false");
  require(m.num_kv_heads == m.num_heads, kind, "num_kv_heads", std::to_string(m.num_kv_heads));
  require(m.head_dim * m.num_heads == m.hidden_size, kind, "head_dim", std::to_string(m.head_dim));
}

}  // namespace

HuggingFaceKind huggingface_kind(const ModelConfig& model) {
  const Architecture architecture = family_of(model).architecture;
  if (architecture == Architecture::added) {
    fail_input(
        "model.family = {:?} is a program's own, and no format of Hugging Face is known to compute "
        "it: use checkpoint.export = \"none\"",
        model.family);
  }
  if (architecture == Architecture::encoder) {
    require_bert(model);
    return model.norm_placement == "post" ? HuggingFaceKind::bert : HuggingFaceKind::megatron_bert;
  }
  // The family is only a set of defaults: the keys themselves decide.
  if (model.moe.num_experts > 0 || model.norm == "rms_norm" || model.position == "rope")
    return require_llama(model);
  if (model.position == "alibi") {
    require_bloom(model);
    return HuggingFaceKind::bloom;
  }
  require_gpt2(model);
  return HuggingFaceKind::gpt2;
}

}  // namespace trireme
