// Compares models key by key in a normal form.
#include "formats/same_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "config/families.h"
#include "config/fields.h"
#include "config/rotary.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 14> training_keys{"model.mup_base_hidden_size",
                                                         "model.mup_base_head_dim",
                                                         "model.seq_length",
                                                         "model.vocab_multiple",
                                                         "model.hidden_dropout",
                                                         "model.attention_dropout",
                                                         "model.init_std",
                                                         "moe.bias_update_rate",
                                                         "moe.aux_loss",
                                                         "moe.aux_loss_coeff",
                                                         "moe.z_loss_coeff",
                                                         "moe.capacity_factor",
                                                         "moe.drop_policy",
                                                         "model.mtp_loss_scale"};

void simplify_positions(ModelConfig& m) {
  const ModelConfig plain;
  if (m.position != PositionEncoding::rope) {
    m.rope_base = plain.rope_base;
    m.rope_percent = plain.rope_percent;
    m.rope_scaling = plain.rope_scaling;
    m.rope_base_local = plain.rope_base_local;
    m.rope_query_beta = plain.rope_query_beta;
    m.no_rope_layers.clear();
    m.qk_l2_norm = plain.qk_l2_norm;
  }
  if (m.no_rope_layers.empty()) m.no_rope_query_beta = plain.no_rope_query_beta;
  if (m.no_rope_query_beta == 0) m.no_rope_query_length = plain.no_rope_query_length;
  if (m.attention_window == 0) m.window_chunks = plain.window_chunks;
  const bool longrope = m.rope_scaling == RopeScaling::longrope,
             by_length = longrope || m.rope_scaling == RopeScaling::dynamic;
  m.rope_attention_factor = rotary_amplitude(m);
  const bool scales = m.rope_scaling_factor != 1 || m.rope_attention_factor != 1 || by_length;
  if (!scales) m.rope_scaling = plain.rope_scaling;
  if (m.rope_scaling == RopeScaling::none || longrope)
    m.rope_scaling_factor = plain.rope_scaling_factor;
  if (m.rope_scaling != RopeScaling::llama3) {
    m.rope_low_freq_factor = plain.rope_low_freq_factor;
    m.rope_high_freq_factor = plain.rope_high_freq_factor;
  }
  if (m.rope_scaling != RopeScaling::yarn) {
    m.rope_beta_fast = plain.rope_beta_fast;
    m.rope_beta_slow = plain.rope_beta_slow;
    m.rope_truncate = plain.rope_truncate;
  }
  if (m.rope_scaling != RopeScaling::llama3 && m.rope_scaling != RopeScaling::yarn && !longrope &&
      m.rope_query_beta == 0)
    m.rope_original_length = plain.rope_original_length;
  // Window layers with the same RoPE as the others.
  if (m.rope_base_local == m.rope_base && m.rope_scaling == RopeScaling::none)
    m.rope_base_local = plain.rope_base_local;
}

void simplify_experts(ExpertConfig& moe) {
  const ExpertConfig plain;
  if (moe.num_experts == 0) moe = plain;
  // Normalizing a single sigmoid score has no effect here (for softmax it does).
  if (moe.score == RouterScore::sigmoid && moe.top_k == 1)
    moe.normalize_weights = plain.normalize_weights;
  if (moe.num_groups == moe.top_groups) moe.num_groups = moe.top_groups = 1;
  if (moe.shared_ffn_hidden_size == 0) moe.shared_gate = plain.shared_gate;
}

// Removes settings without effect, and replaces 0 by the value it stands for.
ModelConfig normal_form(ModelConfig m) {
  const ModelConfig plain;
  const bool is_bert = family_of(m).architecture == Architecture::encoder;
  if (!is_bert) {
    m.order_head = plain.order_head;
    m.token_types = plain.token_types;
  }
  m.family = plain.family;  // only affects defaults
  m.preset = plain.preset;
  simplify_positions(m);
  simplify_experts(m.moe);
  if (!m.qk_norm) {
    m.qk_norm_over = plain.qk_norm_over;
    m.zero_centered_qk_norms = plain.zero_centered_qk_norms;
  }
  if (m.attention_scale == 0) m.attention_scale = 1 / std::sqrt(static_cast<double>(m.head_dim));
  if (m.linear_layers.empty()) {
    m.linear_key_heads = m.linear_value_heads = 0;
    m.linear_key_head_dim = m.linear_value_head_dim = 0;
    m.linear_conv_width = plain.linear_conv_width;
    m.linear_kind = plain.linear_kind;
    m.linear_conv_bias = false;
  }
  if (m.is_latent() && m.latent_norm_eps == 0) m.latent_norm_eps = m.norm_eps;
  return m;
}

// Spells the layer lists of `said` like those of `wanted` if they select the same layers.
void spell_layers_alike(const ModelConfig& wanted, ModelConfig& said) {
  bool windows = wanted.num_layers == said.num_layers, experts = windows;
  for (std::int64_t layer = 0; layer < wanted.num_layers; ++layer) {
    windows = windows && wanted.window_in_layer(layer) == said.window_in_layer(layer);
    experts = experts && wanted.moe.experts_in(layer) == said.moe.experts_in(layer);
  }
  const auto has_dense_mlp = [](const ModelConfig& m) {
    for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
      if (m.mlp_in_layer(layer) && !m.moe.in_layer(layer)) return true;
    return false;
  };
  if (windows) said.window_layers = wanted.window_layers;
  if (experts) {
    said.moe.first_layer = wanted.moe.first_layer;
    said.moe.layer_interval = wanted.moe.layer_interval;
    said.moe.layers = wanted.moe.layers;
    said.moe.experts_by_layer = wanted.moe.experts_by_layer;
  }
  if (!has_dense_mlp(wanted) || !has_dense_mlp(said)) said.ffn_hidden_size = wanted.ffn_hidden_size;
}

// Real numbers may have been rounded when written to a file.
bool is_same(const FieldSlot& one, const FieldSlot& two) {
  if (const auto* const number = std::get_if<double*>(&one)) {
    const double a = **number, b = *std::get<double*>(two);
    return a == b || std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
  }
  return toml_value(one) == toml_value(two);
}

std::vector<ModelDifference> differences_except(const ModelConfig& wanted, const ModelConfig& said,
                                                std::span<const std::string_view> except) {
  Config ours, theirs;
  ours.model = normal_form(wanted);
  theirs.model = normal_form(said);
  spell_layers_alike(ours.model, theirs.model);
  std::vector<ModelDifference> found;
  for (const Field& field : all_fields()) {
    if (field.section != "model" && field.section != "moe") continue;
    if (is_same(field.slot(ours), field.slot(theirs))) continue;
    if (std::ranges::find(except, field.key()) == except.end())
      found.push_back({field.key(), toml_value(field.slot(ours))});
  }
  return found;
}

}  // namespace

std::vector<ModelDifference> differences(const ModelConfig& wanted, const ModelConfig& said) {
  return differences_except(wanted, said, {});
}

std::vector<ModelDifference> differences_of_results(const ModelConfig& wanted,
                                                    const ModelConfig& said) {
  return differences_except(wanted, said, training_keys);
}

}  // namespace trireme
