// Checks of [model].
#include <fmt/ranges.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "config/config.h"
#include "config/divisors.h"
#include "config/experts.h"
#include "config/families.h"
#include "config/rotary.h"

namespace trireme {
namespace {

constexpr double kMostParameters = 1e14;

double number(std::int64_t n) {
  return static_cast<double>(n);
}

void check_sizes(const ModelConfig& model) {
  std::vector<std::string> missing;
  if (model.num_layers == 0) missing.push_back("num_layers");
  if (model.hidden_size == 0) missing.push_back("hidden_size");
  if (model.num_heads == 0) missing.push_back("num_heads");
  if (model.seq_length == 0) missing.push_back("seq_length");
  if (!missing.empty()) {
    fail_input("[model] is missing {}: set {} to a positive number", fmt::join(missing, ", "),
               missing.size() == 1 ? "it" : "them");
  }
  if (model.seq_length > model.max_positions) {
    fail_input(
        "model.seq_length = {} exceeds model.max_positions = {}: increase max_positions or "
        "decrease seq_length",
        model.seq_length, model.max_positions);
  }
}

// Parameters per layer of the down- and up-projections of latent attention.
double latent_parameters(const ModelConfig& m) {
  const double hidden = number(m.hidden_size), heads = number(m.num_heads);
  const double queries = number(m.q_lora_rank), keys = number(m.kv_lora_rank);
  return (hidden + heads * number(m.head_dim)) * queries +
         (hidden + heads * number(m.qk_nope_head_dim + m.v_head_dim)) * keys;
}

// Parameters per layer of linear attention.
double linear_parameters(const ModelConfig& m) {
  if (m.linear_layers.empty()) return 0;
  const double keys = 2 * number(m.linear_key_heads) * number(m.linear_key_head_dim);
  const double values = number(m.linear_value_heads) * number(m.linear_value_head_dim);
  return number(m.hidden_size) * (keys + 3 * values);
}

// Parameters per layer of all experts and the shared expert.
double expert_parameters(const ModelConfig& m) {
  const ExpertConfig& moe = m.moe;
  if (moe.num_experts == 0) return 0;
  return 3 * number(m.hidden_size) *
         (number(moe.num_experts) * number(moe.ffn_hidden_size) +
          number(moe.shared_ffn_hidden_size));
}

// Refuses sizes beyond any machine before anything is allocated or looped over.
void check_absurd(const ModelConfig& model) {
  const double hidden = number(model.hidden_size), heads = number(model.num_heads);
  const double experts = expert_parameters(model), latent = latent_parameters(model);
  const double parameters =
      number(model.num_layers) * (4 * hidden * heads * number(model.head_dim) +
                                  3 * hidden * number(model.ffn_hidden_size) + experts + latent +
                                  linear_parameters(model)) +
      hidden * (number(model.vocab_size) + number(model.max_positions));
  if (parameters > kMostParameters) {
    fail_input(
        "[model] has about {:.1g} parameters, but at most {:.0g} are supported: check num_layers, "
        "hidden_size, num_heads, head_dim, ffn_hidden_size and vocab_size{}{}{}",
        parameters, kMostParameters, latent > 0 ? ", kv_lora_rank and q_lora_rank" : "",
        model.linear_layers.empty() ? "" : ", the heads of linear attention",
        experts > 0 ? ", and num_experts and the sizes of [moe]" : "");
  }
}

void check_heads(const ModelConfig& model) {
  const bool derived =
      !model.given.contains("head_dim") && model.head_dim == model.hidden_size / model.num_heads;
  if (derived && model.hidden_size % model.num_heads != 0) {
    fail_input(
        "model.hidden_size = {} is not divisible by model.num_heads = {}: num_heads can be {}, or "
        "set model.head_dim",
        model.hidden_size, model.num_heads, divisors_near(model.hidden_size, model.num_heads));
  }
  constexpr std::int64_t widest_head = 256;  // limit of the attention kernels
  if (model.head_dim > widest_head) {
    fail_input(
        "model.head_dim = {} exceeds {}, the largest head size that attention supports: use more "
        "heads or smaller ones{}",
        model.head_dim, widest_head,
        derived ? fmt::format(" (head_dim is hidden_size / num_heads = {} / {})", model.hidden_size,
                              model.num_heads)
                : "");
  }
  if (model.num_kv_heads > model.num_heads || model.num_heads % model.num_kv_heads != 0) {
    fail_input(
        "model.num_heads = {} is not divisible by model.num_kv_heads = {}: num_kv_heads can be {}",
        model.num_heads, model.num_kv_heads, divisors_near(model.num_heads, model.num_kv_heads));
  }
  if (model.is_latent()) return;  // has separate checks
  const auto rotary =
      static_cast<std::int64_t>(static_cast<double>(model.head_dim) * model.rope_percent);
  if (model.position == PositionEncoding::rope && (rotary < 2 || rotary % 2 != 0)) {
    fail_input(
        "model.position = \"rope\" rotates pairs of dimensions, but head_dim = {} times "
        "rope_percent = {} is {}: make that an even number",
        model.head_dim, model.rope_percent, rotary);
  }
}

void check_rope_scaling(const ModelConfig& model) {
  if (model.rope_scaling == RopeScaling::none) {
    if (model.rope_scaling_factor == 1) return;
    fail_input(
        "model.rope_scaling_factor = {} has no effect without model.rope_scaling: set rope_scaling "
        "to linear, llama3, yarn or longrope",
        model.rope_scaling_factor);
  }
  if (model.position != PositionEncoding::rope) {
    fail_input("model.rope_scaling = {:?} requires model.position = \"rope\", found {:?}",
               model.rope_scaling, model.position);
  }
  // A factor of 1 leaves frequencies unchanged, but yarn may still scale queries and keys. Those of
  // longrope have their own divisors, and those of dynamic change in longer sequences only.
  const bool multiplies =
      (model.rope_scaling == RopeScaling::yarn && model.rope_attention_factor > 0) ||
      model.rope_scaling == RopeScaling::longrope || model.rope_scaling == RopeScaling::dynamic;
  if (model.rope_scaling_factor <= 1 && !multiplies) {
    fail_input(
        "model.rope_scaling = {:?} requires model.rope_scaling_factor, which divides the "
        "frequencies, to be above 1",
        model.rope_scaling);
  }
  if (model.rope_scaling == RopeScaling::llama3 &&
      model.rope_high_freq_factor < model.rope_low_freq_factor) {
    fail_input(
        "model.rope_high_freq_factor = {} must not be below model.rope_low_freq_factor = {}: "
        "wavelengths between the two bounds are interpolated",
        model.rope_high_freq_factor, model.rope_low_freq_factor);
  }
}

void check_yarn(const ModelConfig& model) {
  if (model.rope_scaling != RopeScaling::yarn) return;
  if (model.rope_beta_fast < model.rope_beta_slow) {
    fail_input(
        "model.rope_beta_fast = {} must not be below model.rope_beta_slow = {}: dimensions with a "
        "number of rotations between the two are interpolated",
        model.rope_beta_fast, model.rope_beta_slow);
  }
}

void check_longrope(const ModelConfig& model) {
  const bool scales = model.rope_scaling == RopeScaling::longrope;
  for (const auto& [key, factors] : {std::pair{"rope_short_factors", &model.rope_short_factors},
                                     {"rope_long_factors", &model.rope_long_factors}}) {
    if (!scales && !factors->empty())
      fail_input(
          "model.{} has no effect without model.rope_scaling = \"longrope\": set that, or remove {}",
          key, key);
    const std::int64_t pairs = rotary_dimensions(model) / 2;
    if (scales && std::ssize(*factors) != pairs)
      fail_input(
          "model.rope_scaling = \"longrope\" divides each of {} rotary frequencies by its own "
          "number, but model.{} has {}: list {}",
          pairs, key, counted(factors->size(), "number"), pairs);
  }
  if (scales && model.rope_original_length < 2)
    fail_input("model.rope_scaling = \"longrope\" requires model.rope_original_length above 1");
}

// Latent attention: consistent widths, and settings that it does not support.
void check_latent(const ModelConfig& m) {
  if (!m.is_latent()) {
    for (const auto& [key, value] : {std::pair{"q_lora_rank", m.q_lora_rank},
                                     {"qk_nope_head_dim", m.qk_nope_head_dim},
                                     {"qk_rope_head_dim", m.qk_rope_head_dim},
                                     {"v_head_dim", m.v_head_dim}}) {
      if (value > 0)
        fail_input(
            "model.{} = {} has no effect without model.kv_lora_rank: set kv_lora_rank, or remove "
            "{}",
            key, value, key);
    }
    return;
  }
  if (m.qk_nope_head_dim == 0 || m.qk_rope_head_dim == 0 || m.qk_rope_head_dim % 2 != 0) {
    fail_input(
        "model.kv_lora_rank = {} requires model.qk_nope_head_dim and an even "
        "model.qk_rope_head_dim, found {} and {}",
        m.kv_lora_rank, m.qk_nope_head_dim, m.qk_rope_head_dim);
  }
  if (m.head_dim != m.qk_nope_head_dim + m.qk_rope_head_dim) {
    fail_input(
        "model.head_dim = {} is not qk_nope_head_dim + qk_rope_head_dim = {} + {}, as "
        "model.kv_lora_rank requires: remove head_dim",
        m.head_dim, m.qk_nope_head_dim, m.qk_rope_head_dim);
  }
  if (m.v_head_dim > m.head_dim) {
    fail_input(
        "model.v_head_dim = {} exceeds the {} dimensions of queries and keys (qk_nope_head_dim + "
        "qk_rope_head_dim): use at most that",
        m.v_head_dim, m.head_dim);
  }
  const auto refuse = [](bool set, const char* what, const char* instead) {
    if (set) fail_input("model.kv_lora_rank conflicts with {}: use {}", what, instead);
  };
  refuse(m.num_kv_heads != m.num_heads, "model.num_kv_heads", "model.num_heads, or remove it");
  refuse(m.position != PositionEncoding::rope, "positions other than rope",
         "model.position = \"rope\"");
  refuse(m.rope_percent != 1, "model.rope_percent", "model.qk_rope_head_dim");
  refuse(m.norm != NormType::rms_norm, "norms other than rms_norm", "model.norm = \"rms_norm\"");
  refuse(m.qkv_bias, "biases of queries, keys and values", "model.qkv_bias = false");
  refuse(m.attention_sinks, "model.attention_sinks", "false");
  refuse(m.qk_norm, "model.qk_norm", "its own built-in norms");
  refuse(m.qk_l2_norm, "model.qk_l2_norm", "its own built-in norms");
}

// Keys that have no effect without others.
void check_idle_keys(const ModelConfig& m) {
  if (m.latent_norm_eps > 0 && !m.is_latent())
    fail_input("model.latent_norm_eps = {} has no effect without model.kv_lora_rank",
               m.latent_norm_eps);
  if (!m.rope_truncate && m.rope_scaling != RopeScaling::yarn)
    fail_input("model.rope_truncate = false has no effect without model.rope_scaling = \"yarn\"");
  if (m.order_head && !m.token_types)
    fail_input(
        "model.token_types = false conflicts with model.order_head = true, which distinguishes two "
        "segments: set order_head to false too");
}

// Maximal-update parametrization.
void check_width(const ModelConfig& m) {
  if (m.mup_base_hidden_size == 0) {
    if (m.mup_base_head_dim > 0)
      fail_input("model.mup_base_head_dim = {} has no effect without model.mup_base_hidden_size",
                 m.mup_base_head_dim);
    return;
  }
  const auto refuse = [&](bool set, const std::string& what) {
    if (set)
      fail_input("model.mup_base_hidden_size = {} conflicts with {}: remove one of them",
                 m.mup_base_hidden_size, what);
  };
  refuse(family_of(m).architecture != Architecture::decoder,
         fmt::format("model.family = {:?}", m.family));
  refuse(!m.linear_layers.empty(), "model.linear_layers");
  refuse(m.attention_gate, "model.attention_gate");
}

void check_mtp(const ModelConfig& m) {
  if (m.mtp_layers == 0) {
    if (m.mtp_loss_scale != ModelConfig{}.mtp_loss_scale)
      fail_input("model.mtp_loss_scale = {} has no effect without model.mtp_layers: set mtp_layers",
                 m.mtp_loss_scale);
    return;
  }
  const auto refuse = [&](bool set, const std::string& what, const char* instead) {
    if (set)
      fail_input("model.mtp_layers = {} conflicts with {}: use {}", m.mtp_layers, what, instead);
  };
  refuse(family_of(m).architecture != Architecture::decoder,
         fmt::format("model.family = {:?}", m.family), "gpt or llama, or remove mtp_layers");
  refuse(m.position == PositionEncoding::learned, "model.position = \"learned\"",
         "rope, alibi or none");
  refuse(m.embedding_norm, "model.embedding_norm", "false");
  refuse(!m.mlp_layers.empty(), "model.mlp_layers", "layers with both attention and an MLP");
  if (m.mtp_loss_scale == 0)
    fail_input("model.mtp_loss_scale = 0 leaves the modules untrained: remove model.mtp_layers");
  if (m.seq_length <= m.mtp_layers)
    fail_input("model.mtp_layers = {} requires sequences longer than model.seq_length = {}",
               m.mtp_layers, m.seq_length);
}

// Checks a list of layers: unique and ascending.
void check_layers_of(const ModelConfig& model, const char* key,
                     const std::vector<std::int64_t>& layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] >= model.num_layers) {
      fail_input(
          "model.{} contains layer {}, but with model.num_layers = {} the layers are 0 to {}", key,
          layers[i], model.num_layers, model.num_layers - 1);
    }
    if (i > 0 && layers[i] <= layers[i - 1])
      fail_input("model.{} must be in ascending order: {} follows {}", key, layers[i],
                 layers[i - 1]);
  }
}

// Gates of attention, and the sizes of linear attention.
void check_linear(const ModelConfig& m) {
  if (m.attention_gate && m.is_latent())
    fail_input("model.attention_gate conflicts with model.kv_lora_rank: remove it");
  if (m.linear_layers.empty()) {
    for (const auto& [key, value, idle] :
         {std::tuple{"linear_key_heads", m.linear_key_heads, std::int64_t{0}},
          {"linear_value_heads", m.linear_value_heads, 0},
          {"linear_key_head_dim", m.linear_key_head_dim, 0},
          {"linear_value_head_dim", m.linear_value_head_dim, 0},
          {"linear_conv_width", m.linear_conv_width, ModelConfig{}.linear_conv_width}}) {
      if (value != idle)
        fail_input(
            "model.{} = {} has no effect without model.linear_layers: set that, or remove {}", key,
            value, key);
    }
    if (m.linear_kind != LinearKind::gated_delta_net)
      fail_input("model.linear_kind = {:?} has no effect without model.linear_layers: set that",
                 m.linear_kind);
    if (m.linear_conv_bias)
      fail_input("model.linear_conv_bias has no effect without model.linear_layers: set that");
    return;
  }
  check_layers_of(m, "linear_layers", m.linear_layers);
  constexpr std::int64_t widest = 256;  // limit of the kernels
  for (const auto& [key, size, most] :
       {std::tuple{"linear_key_heads", m.linear_key_heads, std::int64_t{0}},
        {"linear_value_heads", m.linear_value_heads, 0},
        {"linear_key_head_dim", m.linear_key_head_dim, widest},
        {"linear_value_head_dim", m.linear_value_head_dim, widest}}) {
    if (size == 0)
      fail_input("model.linear_layers needs model.{}: set it to a positive number", key);
    if (most > 0 && size > most)
      fail_input("model.{} = {} is above {}, the widest head that linear attention can compute",
                 key, size, most);
  }
  if (m.linear_value_heads % m.linear_key_heads != 0)
    fail_input(
        "model.linear_value_heads = {} is not divisible by model.linear_key_heads = {}: "
        "linear_key_heads can be {}",
        m.linear_value_heads, m.linear_key_heads,
        divisors_near(m.linear_value_heads, m.linear_key_heads));
}

// Layers that are an MLP alone, or attention alone.
void check_single_parts(const ModelConfig& m) {
  if (m.mlp_layers.empty()) return;
  check_layers_of(m, "mlp_layers", m.mlp_layers);
  if (family_of(m).architecture != Architecture::decoder)
    fail_input(
        "model.mlp_layers conflicts with model.family = {:?}, whose layers have both attention and "
        "an MLP: use gpt or llama",
        m.family);
  if (m.norm_placement != NormPlacement::pre)
    fail_input(
        "model.mlp_layers requires model.norm_placement = \"pre\", found {:?}: such layers have one "
        "norm",
        m.norm_placement);
  for (const auto& [key, layers] : {std::pair{"linear_layers", &m.linear_layers},
                                    {"window_layers", &m.window_layers},
                                    {"no_rope_layers", &m.no_rope_layers}}) {
    for (const std::int64_t layer : *layers)
      if (!m.attention_in_layer(layer))
        fail_input(
            "model.{} contains layer {}, which model.mlp_layers makes an MLP alone: remove it from "
            "one of the two",
            key, layer);
  }
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
    if (m.moe.in_layer(layer) && !m.mlp_in_layer(layer))
      fail_input(
          "layer {} is to have experts (moe.layers, or moe.first_layer and moe.layer_interval), "
          "but is not one of model.mlp_layers: give the layers with experts in moe.layers",
          layer);
}

void check_windows(const ModelConfig& model) {
  if (model.window_chunks && model.attention_window == 0) {
    fail_input(
        "model.window_chunks has no effect without model.attention_window: set attention_window");
  }
  if (model.window_layers.empty()) return;
  if (model.attention_window == 0) {
    fail_input(
        "model.window_layers has no effect without model.attention_window: set attention_window");
  }
  check_layers_of(model, "window_layers", model.window_layers);
}

// Layers whose position encoding differs from the other layers'.
void check_rope_layers(const ModelConfig& model) {
  const auto needs_rope = [&](const char* key, bool set) {
    if (set && model.position != PositionEncoding::rope)
      fail_input("model.{} requires model.position = \"rope\", found {:?}", key, model.position);
  };
  needs_rope("no_rope_layers", !model.no_rope_layers.empty());
  needs_rope("rope_base_local", model.rope_base_local > 0);
  needs_rope("rope_query_beta", model.rope_query_beta > 0);
  needs_rope("qk_l2_norm", model.qk_l2_norm);
  if (model.no_rope_query_beta > 0 && model.no_rope_layers.empty())
    fail_input("model.no_rope_query_beta = {} has no effect without model.no_rope_layers",
               model.no_rope_query_beta);
  if (model.no_rope_query_beta == 0 &&
      model.no_rope_query_length != ModelConfig{}.no_rope_query_length)
    fail_input("model.no_rope_query_length = {} has no effect without model.no_rope_query_beta",
               model.no_rope_query_length);
  check_layers_of(model, "no_rope_layers", model.no_rope_layers);
  if (!model.no_rope_layers.empty() && family_of(model).architecture != Architecture::decoder) {
    fail_input(
        "model.no_rope_layers conflicts with model.family = {:?}, whose layers all have the same "
        "attention: use gpt or llama",
        model.family);
  }
  if (model.rope_base_local > 0 && model.attention_window == 0) {
    fail_input(
        "model.rope_base_local = {} applies to layers with sliding-window attention, and there are "
        "none: set model.attention_window, or remove rope_base_local",
        model.rope_base_local);
  }
}

void check_norms(const ModelConfig& model) {
  if (model.qk_l2_norm && model.qk_norm)
    fail_input(
        "model.qk_l2_norm conflicts with model.qk_norm, which is the same norm with weights: "
        "remove one of them");
  if (model.zero_centered_qk_norms && !model.qk_norm)
    fail_input(
        "model.zero_centered_qk_norms has no effect without model.qk_norm: set qk_norm to true");
  if (model.qk_norm || model.qk_norm_over == NormSpan::head) return;
  fail_input("model.qk_norm_over = {:?} has no effect without model.qk_norm: set qk_norm to true",
             model.qk_norm_over);
}

// Refuses keys that only swiglu reads with other activations.
void check_gate(const ModelConfig& model) {
  const ModelConfig none;
  for (const auto& [key, value, idle] :
       {std::tuple{"activation_clamp", model.activation_clamp, none.activation_clamp},
        {"gate_alpha", model.gate_alpha, none.gate_alpha},
        {"gate_offset", model.gate_offset, none.gate_offset}}) {
    if (value == idle || model.activation == MlpActivation::swiglu) continue;
    fail_input(
        "model.{} = {} requires model.activation = \"swiglu\", found {:?}: set activation, or "
        "remove {}",
        key, value, model.activation, key);
  }
}

void check_soft_cap(const ModelConfig& model) {
  constexpr double least = 1e-3;  // inverses of smaller values overflow fp32 or fp16
  for (const auto& [name, cap] : {std::pair{"attention_soft_cap", model.attention_soft_cap},
                                  {"logit_soft_cap", model.logit_soft_cap}}) {
    if (cap == 0 || cap >= least) continue;
    fail_input("model.{} = {} is too small: a cap is at least {}, or 0 for none", name, cap, least);
  }
  if (model.attention_soft_cap == 0 || model.position != PositionEncoding::alibi) return;
  fail_input(
      "model.attention_soft_cap = {} conflicts with model.position = \"alibi\", a combination that "
      "no published model has: remove it, or use another position",
      model.attention_soft_cap);
}

}  // namespace

void validate(const ModelConfig& model) {
  check_sizes(model);
  check_absurd(model);
  check_heads(model);
  check_latent(model);
  check_windows(model);
  check_rope_layers(model);
  check_rope_scaling(model);
  check_yarn(model);
  check_longrope(model);
  check_idle_keys(model);
  check_width(model);
  check_mtp(model);
  check_linear(model);
  check_single_parts(model);
  check_norms(model);
  check_gate(model);
  check_soft_cap(model);
  refuse_for_family(model);
  check_experts(model);
}

}  // namespace trireme
