// Fills in family defaults and derived sizes of a model.
#include <algorithm>
#include <cmath>

#include "config/families.h"
#include "config/width.h"

namespace trireme {
namespace {

// Sets `to` to the family's value unless the user set it or it differs from the code's default.
template <class T>
void imply(const ModelConfig& model, const char* key, T& to, T default_value, T family) {
  if (!model.given.contains(key) && to == default_value) to = family;
}

// An explicit "" also means "by family".
template <Choice T>
void imply(T& to, T family) {
  if (to == T::by_family) to = family;
}

// Multipliers of maximal-update parametrization.
void resolve_width(ModelConfig& model) {
  const double base =
      model.mup_base_head_dim > 0 ? static_cast<double>(model.mup_base_head_dim) : 1;
  imply(model, "attention_scale", model.attention_scale, 0.0,
        std::sqrt(base) / static_cast<double>(model.head_dim));
  imply(model, "logit_multiplier", model.logit_multiplier, 1.0, 1 / width_ratio(model));
}

std::int64_t default_ffn(const ModelConfig& model) {
  if (!has_gate(model)) return 4 * model.hidden_size;
  // A gated MLP has three matrices, so 2/3 of the width keeps the number of parameters.
  return std::max<std::int64_t>(64, 8 * model.hidden_size / 3 / 64 * 64);
}

}  // namespace

std::int64_t ExpertConfig::experts_in(std::int64_t layer) const {
  if (num_experts == 0) return 0;
  std::int64_t turn = 0;  // index among the layers with experts
  if (!layers.empty()) {
    const auto at = std::find(layers.begin(), layers.end(), layer);
    if (at == layers.end()) return 0;
    turn = at - layers.begin();
  } else {
    if (layer < first_layer || (layer - first_layer) % layer_interval != 0) return 0;
    turn = (layer - first_layer) / layer_interval;
  }
  // Smaller models made by plans may have fewer layers, and invalid configurations more.
  if (turn >= static_cast<std::int64_t>(experts_by_layer.size())) return num_experts;
  return experts_by_layer[static_cast<std::size_t>(turn)];
}

namespace {

bool lists(const std::vector<std::int64_t>& layers, std::int64_t layer) {
  return std::ranges::find(layers, layer) != layers.end();
}

}  // namespace

bool ModelConfig::window_in_layer(std::int64_t layer) const {
  return attention_window > 0 && (window_layers.empty() || lists(window_layers, layer));
}

bool ModelConfig::rope_in_layer(std::int64_t layer) const {
  return position == PositionEncoding::rope && !lists(no_rope_layers, layer);
}

bool ModelConfig::linear_in_layer(std::int64_t layer) const {
  return lists(linear_layers, layer);
}

bool ModelConfig::attention_in_layer(std::int64_t layer) const {
  return !lists(mlp_layers, layer);
}

bool ModelConfig::mlp_in_layer(std::int64_t layer) const {
  return mlp_layers.empty() || lists(mlp_layers, layer);
}

void resolve(ModelConfig& model) {
  const ModelConfig defaults;
  const Family& family = family_of(model);
  imply(model.position, family.position);
  imply(model.norm, family.norm);
  imply(model, "norm_eps", model.norm_eps, defaults.norm_eps, family.norm_eps);
  imply(model.activation, family.activation);
  imply(model, "bias", model.bias, defaults.bias, family.bias);
  imply(model, "tie_embeddings", model.tie_embeddings, defaults.tie_embeddings,
        family.tie_embeddings);
  imply(model, "qkv_bias", model.qkv_bias, defaults.qkv_bias, model.bias);
  imply(model, "token_types", model.token_types, defaults.token_types, model.order_head);
  if (model.num_kv_heads == 0) model.num_kv_heads = model.num_heads;
  if (model.head_dim == 0 && model.is_latent()) {
    model.head_dim = model.qk_nope_head_dim + model.qk_rope_head_dim;
  } else if (model.head_dim == 0 && model.num_heads > 0) {
    model.head_dim = model.hidden_size / model.num_heads;
    model.given.erase("head_dim");
  }
  if (model.is_latent() && model.v_head_dim == 0) model.v_head_dim = model.qk_nope_head_dim;
  if (model.linear_value_head_dim == 0) model.linear_value_head_dim = model.linear_key_head_dim;
  if (model.mup_base_hidden_size > 0 && model.head_dim > 0) resolve_width(model);
  if (model.ffn_hidden_size == 0 && model.hidden_size > 0)
    model.ffn_hidden_size = default_ffn(model);
  if (ExpertConfig& moe = model.moe; moe.num_experts == 0 && !moe.experts_by_layer.empty())
    moe.num_experts = *std::ranges::max_element(moe.experts_by_layer);
  if (model.moe.num_experts > 0 && model.moe.ffn_hidden_size == 0)
    model.moe.ffn_hidden_size = model.ffn_hidden_size;
  if (model.max_positions == 0) model.max_positions = model.seq_length;
}

}  // namespace trireme
