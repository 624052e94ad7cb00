// Writes a model's arguments and verifies them by reading them back.
#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"
#include "config/families.h"
#include "config/fields.h"
#include "formats/megatron/torch_dist_writer.h"
#include "formats/same_model.h"
#include "importers/megatron/arguments.h"
#include "importers/megatron/flags/flags.h"

namespace trireme::megatron {
namespace {

TorchValue whole_or_real(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15)
    return {static_cast<std::int64_t>(value)};
  return {value};
}

TorchValue text_value(const char* text) {
  return {std::string(text)};
}

const char* theirs(PositionEncoding position) {
  switch (position) {
    case PositionEncoding::rope:
      return "rope";
    case PositionEncoding::none:
      return "none";
    case PositionEncoding::learned:
    case PositionEncoding::alibi:  // the readback detects it
    case PositionEncoding::by_family:
      break;
  }
  return "learned_absolute";
}

// Megatron's name of a tokenizer type, or None.
TorchValue tokenizer_type(const std::string& ours) {
  for (const auto& [name, kind] : choices(*find_flag("--tokenizer-type")))
    if (kind == ours) return {std::string(name)};
  return {};
}

bool is_bert(const ModelConfig& m) {
  return family_of(m).architecture == Architecture::encoder;
}

void add_positions(TorchDict& args, const ModelConfig& m) {
  const bool yarn = m.rope_scaling == RopeScaling::yarn;
  args.push_back({"position_embedding_type", text_value(yarn ? "yarn" : theirs(m.position))});
  args.push_back({"add_position_embedding", {true}});
  args.push_back({"rotary_base", whole_or_real(m.rope_base)});
  args.push_back({"rotary_percent", {m.rope_percent}});
  args.push_back({"rotary_interleaved", {false}});
  const bool linear = m.rope_scaling == RopeScaling::linear,
             scaled = m.rope_scaling == RopeScaling::llama3;
  args.push_back({"rotary_seq_len_interpolation_factor",
                  linear ? whole_or_real(m.rope_scaling_factor) : TorchValue{}});
  args.push_back({"use_rope_scaling", {scaled}});
  args.push_back({"rope_scaling_factor", {scaled ? m.rope_scaling_factor : 8.0}});
  if (!yarn) return;
  // The readback detects any other factor.
  const double even = m.rope_attention_factor == 1 ? 1.0 : 0.0;
  const TorchDict stretch{{"rotary_scaling_factor", {m.rope_scaling_factor}},
                          {"mscale", {1.0}},
                          {"mscale_all_dim", {even}},
                          {"yarn_original_max_position_embeddings", {m.rope_original_length}},
                          {"yarn_beta_fast", {m.rope_beta_fast}},
                          {"yarn_beta_slow", {m.rope_beta_slow}},
                          {"yarn_correction_range_round_to_int", {m.rope_truncate}}};
  args.insert(args.end(), stretch.begin(), stretch.end());
}

void add_layers(TorchDict& args, const ModelConfig& m) {
  const bool grouped = m.num_kv_heads != m.num_heads;
  // With bias fusion, Megatron computes GELU in its tanh form.
  const bool is_tanh = m.activation == MlpActivation::gelu_tanh;
  const bool is_quick = m.gate_alpha == 1.702;  // the readback detects any other slope
  const TorchDict layers{
      {"num_layers", {m.num_layers}},
      {"hidden_size", {m.hidden_size}},
      {"ffn_hidden_size", {m.ffn_hidden_size}},
      {"num_attention_heads", {m.num_heads}},
      {"kv_channels", {m.head_dim}},
      {"group_query_attention", {grouped}},
      {"num_query_groups", {grouped ? m.num_kv_heads : std::int64_t{1}}},
      {"seq_length", {m.seq_length}},
      {"max_position_embeddings", {m.max_positions}},
      {"normalization", text_value(m.norm == NormType::rms_norm ? "RMSNorm" : "LayerNorm")},
      {"norm_epsilon", {m.norm_eps}},
      {"layernorm_epsilon", {m.norm_eps}},
      {"apply_layernorm_1p", {false}},
      {"apply_residual_connection_post_layernorm", {false}},
      {"swiglu", {m.activation == MlpActivation::swiglu && !is_quick}},
      {"quick_geglu", {is_quick}},
      {"activation_func_clamp_value",
       m.activation_clamp > 0 ? TorchValue{m.activation_clamp} : TorchValue{}},
      {"glu_linear_offset", {m.gate_offset}},
      {"softmax_type", text_value(m.attention_sinks ? "learnable" : "vanilla")},
      {"squared_relu", {m.activation == MlpActivation::squared_relu}},
      // BERT's head reads only openai_gelu.
      {"openai_gelu", {is_tanh && (!m.bias || is_bert(m))}},
      {"bias_gelu_fusion", {is_tanh && m.bias && !is_bert(m)}},
      {"add_bias_linear", {m.bias}},
      {"add_qkv_bias", {m.qkv_bias && !m.bias}},
      {"qk_layernorm", {m.qk_norm}},
      {"hidden_dropout", {m.hidden_dropout}},
      {"attention_dropout", {m.attention_dropout}},
      {"init_method_std", {m.init_std}}};
  args.insert(args.end(), layers.begin(), layers.end());
  TorchValue window;
  if (m.attention_window > 0) window = {TorchTuple{{{m.attention_window - 1}, {std::int64_t{0}}}}};
  args.push_back({"window_size", std::move(window)});
}

TorchValue whole_or_none(std::int64_t value) {
  return value > 0 ? TorchValue{value} : TorchValue{};
}

// Layers with experts: every layer, or a list of zeros and ones.
TorchValue layer_pattern(const ModelConfig& m) {
  if (stacks_layers(m)) return {std::int64_t{1}};
  TorchList layers;
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
    layers.push_back({std::int64_t{m.moe.in_layer(layer)}});
  return {layers};
}

const char* theirs(BalanceScope scope) {
  switch (scope) {
    case BalanceScope::sequence:
      return "seq_aux_loss";
    case BalanceScope::batch:
      return "aux_loss";
    case BalanceScope::global:
      break;
  }
  return "global_aux_loss";
}

void add_experts(TorchDict& args, const ModelConfig& m) {
  const ExpertConfig& e = m.moe;
  const bool limits = e.top_groups != e.num_groups;
  const TorchDict experts{
      {"num_experts", {e.num_experts}},
      {"moe_ffn_hidden_size", {e.ffn_hidden_size}},
      {"moe_layer_freq", layer_pattern(m)},
      {"moe_router_topk", {e.top_k}},
      {"moe_router_score_function", {fmt::format("{}", e.score)}},
      {"moe_router_pre_softmax", {e.score == RouterScore::softmax && !e.normalize_weights}},
      {"moe_router_topk_scaling_factor",
       e.scaling_factor == 1 ? TorchValue{} : TorchValue{e.scaling_factor}},
      {"moe_router_num_groups", limits ? TorchValue{e.num_groups} : TorchValue{}},
      {"moe_router_group_topk", limits ? TorchValue{e.top_groups} : TorchValue{}},
      {"moe_router_enable_expert_bias", {e.expert_bias}},
      {"moe_router_bias_update_rate", {e.bias_update_rate}},
      {"moe_router_load_balancing_type", text_value(theirs(e.aux_loss))},
      {"moe_aux_loss_coeff", {e.aux_loss_coeff}},
      {"moe_z_loss_coeff", e.z_loss_coeff > 0 ? TorchValue{e.z_loss_coeff} : TorchValue{}},
      {"moe_shared_expert_intermediate_size", whole_or_none(e.shared_ffn_hidden_size)},
      {"moe_shared_expert_gate", {e.shared_gate}},
      {"moe_expert_capacity_factor",
       e.capacity_factor > 0 ? TorchValue{e.capacity_factor} : TorchValue{}},
      {"moe_token_drop_policy",
       text_value(e.drop_policy == DropPolicy::position ? "position" : "probs")}};
  args.insert(args.end(), experts.begin(), experts.end());
}

TorchDict all_arguments(const Config& config, const MegatronLayout& layout) {
  const ModelConfig& m = config.model;
  TorchDict args;
  add_layers(args, m);
  add_positions(args, m);
  // Only the distributed format has names for experts.
  if (layout.kind == MegatronKind::distributed && m.moe.num_experts > 0) {
    add_experts(args, m);
  } else {
    args.push_back({"num_experts", {}});
  }
  const bool is_legacy = layout.kind == MegatronKind::legacy;
  args.push_back({"mtp_num_layers", whole_or_none(is_legacy ? 0 : m.mtp_layers)});
  args.push_back({"mtp_loss_scaling_factor", {m.mtp_loss_scale}});
  const TorchDict rest{
      {"untie_embeddings_and_output_weights", {!m.tie_embeddings}},
      {"make_vocab_size_divisible_by", {m.vocab_multiple}},
      {"padded_vocab_size", {megatron_vocabulary(m, layout.tp)}},
      {words_argument, {m.vocab_size}},
      {"tokenizer_type", tokenizer_type(config.data.tokenizer)},
      {"tensor_model_parallel_size", {std::int64_t{layout.tp}}},
      {"pipeline_model_parallel_size", {std::int64_t{layout.pp}}},
      {"virtual_pipeline_model_parallel_size", {}},
      {"use_legacy_models", {layout.kind == MegatronKind::legacy}},
      {"transformer_impl", text_value(layout.kind == MegatronKind::transformer_engine ||
                                              layout.kind == MegatronKind::distributed
                                          ? "transformer_engine"
                                          : "local")},
      {"consumed_train_samples", {std::int64_t{0}}},
      {"consumed_valid_samples", {std::int64_t{0}}}};
  args.insert(args.end(), rest.begin(), rest.end());
  if (is_bert(m)) args.push_back({"bert_binary_head", {m.order_head}});
  return args;
}

// Formats a value as Python does, for the types used above.
std::optional<std::string> shown(const TorchValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag ? "True" : "False";
  if (const auto* number = std::get_if<std::int64_t>(&value.value))
    return fmt::format("{}", *number);
  if (const auto* number = std::get_if<double>(&value.value)) return toml_number(*number);
  const auto* tuple = std::get_if<TorchTuple>(&value.value);
  const TorchList* list = tuple ? &tuple->items : std::get_if<TorchList>(&value.value);
  if (!list) return std::nullopt;
  std::vector<std::string> items;
  for (const TorchValue& item : *list) items.push_back(shown(item).value_or("None"));
  return fmt::format("({})", fmt::join(items, ","));
}

[[noreturn]] void refuse_key(const std::string& key, const std::string& why) {
  fail_input("cannot write a Megatron-LM checkpoint: Megatron-LM does not support {}: {}", key,
             why);
}

// Refuses models with arguments that Megatron stores but does not use.
void require_computed(const ModelConfig& m, const MegatronLayout& layout) {
  const bool legacy = layout.kind == MegatronKind::legacy,
             rotates = m.position == PositionEncoding::rope;
  const bool is_tanh = m.activation == MlpActivation::gelu_tanh;
  const std::string activation = fmt::format("model.activation = \"{}\"", m.activation);
  if (!legacy && is_tanh && !m.bias)
    refuse_key(activation,
               "without model.bias Megatron-Core uses gelu_erf (--megatron-names legacy supports "
               "it)");
  if (is_bert(m) && rotates)
    refuse_key("model.position = \"rope\"", "its BERT does not support it");
  if (is_bert(m) && m.activation != MlpActivation::gelu_erf && !(legacy && is_tanh))
    refuse_key(activation, "the head of its BERT uses gelu_erf");
  const bool gates = m.gate_alpha != 1 || m.gate_offset != 0 || m.activation_clamp > 0;
  if (legacy && gates) refuse_key("model.gate_alpha", "its legacy models have different gates");
  if (gates && m.gate_alpha == 1)
    refuse_key("model.activation_clamp",
               "only its quick_geglu (model.gate_alpha = 1.702) supports it");
  if (legacy && m.attention_window > 0)
    refuse_key(fmt::format("model.attention_window = {}", m.attention_window),
               "its legacy models do not support it");
  if (!rotates) return;
  const std::string factor = fmt::format("model.rope_scaling_factor = {}", m.rope_scaling_factor);
  if (m.rope_scaling == RopeScaling::llama3 && m.rope_scaling_factor != 8)
    refuse_key(factor, "its models always use 8, regardless of the flag");
  if (m.rope_scaling == RopeScaling::linear && !legacy)
    refuse_key("model.rope_scaling = \"linear\"", "the factor is not passed to Megatron-Core");
  if (!legacy) return;
  if (m.rope_base != 10000)
    refuse_key(fmt::format("model.rope_base = {}", m.rope_base), "its legacy models use 10000");
  if (m.rope_scaling == RopeScaling::llama3)
    refuse_key("model.rope_scaling = \"llama3\"", "its legacy models do not support it");
  if (m.rope_scaling == RopeScaling::yarn)
    refuse_key("model.rope_scaling = \"yarn\"", "its legacy models do not support it");
}

}  // namespace

TorchDict arguments_of(const Config& config, const MegatronLayout& layout) {
  TorchDict args = all_arguments(config, layout);
  const auto look_up = [&](std::string_view name) -> std::optional<std::string> {
    for (const auto& [key, value] : args)
      if (key == name) return shown(value);
    return std::nullopt;
  };
  ModelConfig said = model_of_arguments(
      "the checkpoint to write", is_bert(config.model), look_up,
      layout.kind == MegatronKind::distributed ? Experts::read : Experts::refused);
  said.vocab_size = config.model.vocab_size;
  resolve(said);
  if (const auto unsaid = differences(config.model, said); !unsaid.empty()) {
    fail_input("cannot write a Megatron-LM checkpoint: its models have no equivalent of {} = {}",
               unsaid[0].key, unsaid[0].value);
  }
  require_computed(config.model, layout);
  return args;
}

}  // namespace trireme::megatron
