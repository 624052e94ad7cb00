// Two tables, for names inside and outside of layers, used in both directions.
#include "formats/megatron/names.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace trireme {
namespace {

using enum MegatronCut;

// Model kinds that use a module name for writing; other names are only read.
enum Kinds : std::uint8_t {
  engine = 1,  // MegatronKind::transformer_engine
  own = 2,     // MegatronKind::local
  core = engine | own,
  old = 4,         // MegatronKind::legacy, inside language_model
  old_apart = 8,   // ... outside of it
  has_state = 16,  // with extra state of fp8 formats
  apart = 32,      // in the distributed format
};

struct Module {
  std::string_view theirs, ours;
  MegatronCut weight, bias;
  unsigned kinds = 0;
};

constexpr Module in_layers[] = {
    {"input_layernorm", "input_norm", none, none, own | old},
    {"input_norm", "input_norm", none, none},
    {"self_attention.linear_qkv.layer_norm", "input_norm", none, none, engine},
    {"attention.query_key_value", "attention.qkv", heads, heads},
    {"self_attention.query_key_value", "attention.qkv", heads, heads, old},
    {"self_attention.linear_qkv", "attention.qkv", heads, heads, core | has_state},
    {"self_attention.q_layernorm", "attention.query_norm", none, none, core},
    {"self_attention.k_layernorm", "attention.key_norm", none, none, core},
    {"attention.dense", "attention.out", columns, none},
    {"self_attention.dense", "attention.out", columns, none, old},
    {"self_attention.linear_proj", "attention.out", columns, none, core | has_state},
    {"post_attention_layernorm", "mlp_norm", none, none, old},
    {"post_attention_norm", "mlp_norm", none, none},
    {"pre_mlp_layernorm", "mlp_norm", none, none, own},
    {"mlp.linear_fc1.layer_norm", "mlp_norm", none, none, engine},
    {"mlp.dense_h_to_4h", "mlp.up", gated, gated, old},
    {"mlp.linear_fc1", "mlp.up", gated, gated, core | has_state},
    {"mlp.dense_4h_to_h", "mlp.down", columns, none, old},
    {"mlp.linear_fc2", "mlp.down", columns, none, core | has_state},
    // Names in the distributed format.
    {"mlp.router", "mlp.router", none, none, apart},
    {"mlp.experts.experts.linear_fc1", "mlp.experts.up", none, none, apart},
    {"mlp.experts.experts.linear_fc2", "mlp.experts.down", none, none, apart},
    {"mlp.shared_experts.linear_fc1", "mlp.shared.up", none, none, apart},
    {"mlp.shared_experts.linear_fc2", "mlp.shared.down", none, none, apart},
};

// Tensors in layers that are not the weight and the bias of a module.
struct Single {
  std::string_view theirs, ours;
  MegatronCut cut;
  unsigned kinds = 0;
};

constexpr Single singles[] = {
    {"mlp.router.expert_bias", "mlp.router.bias", none, apart},
    {"mlp.router.bias", "mlp.router.logit_bias", none, apart},
    {"mlp.shared_experts.gate_weight", "mlp.shared.gate.weight", none, apart},
    {"self_attention.core_attention.softmax_offset", "attention.sinks", rows, core},
};

// Of modules of multi-token prediction, besides those of their layer.
constexpr Module in_modules[] = {
    {"enorm", "embedding_norm", none, none, core},
    {"hnorm", "state_norm", none, none, core},
    {"eh_proj", "projection", rows, none, core | has_state},
    {"final_layernorm", "final_norm", none, none, core},
};

constexpr Module outside[] = {
    {"embedding.word_embeddings", "embedding.word", words, none, core | old},
    {"embedding.word_embeddings.norm", "embedding.norm", none, none},
    {"embedding.position_embeddings", "embedding.position", none, none, core | old},
    {"embedding.tokentype_embeddings", "embedding.token_type", none, none, core | old},
    {"encoder.final_layernorm", "final_norm", none, none, core | old},
    {"encoder.final_norm", "final_norm", none, none},
    {"transformer.final_layernorm", "final_norm", none, none},
    {"decoder.final_layernorm", "final_norm", none, none, core},
    {"decoder.final_norm", "final_norm", none, none},
    {"output_layer", "head", words, none, core | old | has_state},
    {"word_embeddings_for_head", "embedding.word", words, none},
    {"word_embeddings", "embedding.word", words, none},
    {"pooler.dense", "pooler", none, none, core | old},
    {"lm_head.dense", "masked_head.dense", none, none, core | old_apart},
    {"lm_head.layernorm", "masked_head.norm", none, none, old_apart},
    {"lm_head.norm", "masked_head.norm", none, none},
    {"lm_head.layer_norm", "masked_head.norm", none, none, core},
    {"binary_head", "order_head", none, none, core | old_apart},
};

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

template <std::size_t N>
MegatronName look_up(const Module (&table)[N], std::string_view module, bool is_weight) {
  for (const Module& row : table) {
    if (row.theirs != module) continue;
    const std::string ours = std::string(row.ours) + (is_weight ? ".weight" : ".bias");
    return {ours, -1, false, is_weight ? row.weight : row.bias};
  }
  return {};
}

unsigned kinds_of(MegatronKind kind) {
  if (kind == MegatronKind::transformer_engine) return engine;
  if (kind == MegatronKind::distributed) return engine | apart;
  return kind == MegatronKind::local ? own : old | old_apart;
}

// Name of the layer stack of a model kind.
std::string stack(MegatronKind kind, bool bert) {
  return bert || kind == MegatronKind::legacy ? "encoder." : "decoder.";
}

std::string prefix_of(std::int64_t layer, MegatronKind kind, bool bert) {
  return layer < 0 ? "" : stack(kind, bert) + "layers." + std::to_string(layer) + ".";
}
std::string prefix_of(const MegatronName& name, MegatronKind kind, bool bert) {
  return name.is_module ? fmt::format("mtp.layers.{}.transformer_layer.", name.layer)
                        : prefix_of(name.layer, kind, bert);
}

// Some modules are named as part of the layer stack that precedes them.
bool is_of_stack(std::string_view module, const std::string& stack) {
  const bool any = module.starts_with("encoder.") || module.starts_with("decoder.");
  return !any || module.starts_with(stack);
}

template <std::size_t N>
const Module* find_module(const Module (&table)[N], std::string_view ours, MegatronKind kind,
                          bool bert) {
  for (const Module& row : table) {
    const bool has = (row.kinds & kinds_of(kind)) != 0;
    if (has && row.ours == ours && is_of_stack(row.theirs, stack(kind, bert))) return &row;
  }
  return nullptr;
}

template <std::size_t N>
std::vector<std::string> states(const Module (&table)[N], const std::string& prefix) {
  std::vector<std::string> names;
  for (const Module& row : table)
    if ((row.kinds & has_state) != 0)
      names.push_back(prefix + std::string(row.theirs) + "._extra_state");
  return names;
}

}  // namespace

MegatronName split_name(std::string_view ours) {
  MegatronName name{std::string(ours)};
  name.is_module = ours.starts_with("mtp.");
  if (!name.is_module && !ours.starts_with("layers.")) return name;
  const char* const begin = ours.data() + ours.find('.') + 1;
  const char* const end = ours.data() + ours.size();
  const char* const dot = std::from_chars(begin, end, name.layer).ptr;
  name.ours = std::string(dot + 1, end);
  return name;
}

std::string megatron_name_of(const MegatronName& name, MegatronKind kind, bool bert) {
  const std::string_view ours = name.ours;
  const bool is_old = kind == MegatronKind::legacy, in_layer = name.layer >= 0;
  const std::string prefix = prefix_of(name, kind, bert);
  for (const Single& row : singles) {
    if (in_layer && row.ours == ours && (row.kinds & kinds_of(kind)) != 0)
      return prefix + std::string(row.theirs);
  }
  if (ours == "masked_head.bias") return is_old ? "lm_head.bias" : "output_layer.bias";
  const std::size_t dot = ours.rfind('.');
  const std::string_view module = ours.substr(0, dot), parameter = ours.substr(dot + 1);
  if (parameter != "weight" && parameter != "bias") return "";
  if (name.is_module) {
    if (const Module* row = find_module(in_modules, module, kind, bert))
      return fmt::format("mtp.layers.{}.{}.{}", name.layer, row->theirs, parameter);
  }
  const Module* row = in_layer ? find_module(in_layers, module, kind, bert)
                               : find_module(outside, module, kind, bert);
  if (!row || (name.is_module && is_old)) return "";
  // Fused norms are parameters of the linear layers that follow them.
  const char* const between = row->theirs.ends_with(".layer_norm") && in_layer ? "_" : ".";
  return (is_old && (row->kinds & old_apart) == 0 ? "language_model." : "") + prefix +
         std::string(row->theirs) + between + std::string(parameter);
}

std::string megatron_copy_name(MegatronKind kind) {
  return kind == MegatronKind::legacy ? "word_embeddings_for_head.weight" : "output_layer.weight";
}

std::vector<std::string> megatron_states(std::int64_t layer, MegatronKind kind, bool bert) {
  if (kind == MegatronKind::legacy) return {};
  const std::string prefix = prefix_of(layer, kind, bert);
  return layer < 0 ? states(outside, prefix) : states(in_layers, prefix);
}

std::vector<std::string> megatron_module_states(std::int64_t module) {
  const std::string prefix = fmt::format("mtp.layers.{}.", module);
  std::vector<std::string> names = states(in_modules, prefix);
  for (std::string& name : states(in_layers, prefix + "transformer_layer."))
    names.push_back(std::move(name));
  return names;
}

namespace {

// A place among the layers or the modules of multi-token prediction, and the rest of the name.
struct LayerPlace {
  std::int64_t number = -1;  // -1: none that is valid
  bool is_module = false;
  std::string_view rest;
};

std::optional<LayerPlace> place_of(std::string_view name) {
  LayerPlace place;
  place.is_module = take_prefix(name, "mtp.layers.");
  const bool inside = place.is_module || take_prefix(name, "encoder.layers.") ||
                      take_prefix(name, "transformer.layers.") ||
                      take_prefix(name, "decoder.layers.");
  if (!inside) return std::nullopt;
  std::int64_t number = -1;
  const char* const end = name.data() + name.size();
  const auto [dot, error] = std::from_chars(name.data(), end, number);
  constexpr std::int64_t most_layers = 1'000'000;
  if (error != std::errc() || dot == end || *dot != '.' || number < 0 || number > most_layers)
    return place;
  place.number = number;
  place.rest = std::string_view(dot + 1, end);
  return place;
}

// The module that a tensor is the weight or the bias of; "": neither.
struct WeightOrBias {
  std::string_view module;
  bool is_weight = false;
};

WeightOrBias parameter_of(std::string_view tensor) {
  for (const std::string_view ending : {".weight", "_weight", ".bias", "_bias"}) {
    if (tensor.ends_with(ending))
      return {tensor.substr(0, tensor.size() - ending.size()), ending.ends_with("weight")};
  }
  return {};
}

MegatronName name_in_layer(std::string_view tensor) {
  for (const Single& row : singles)
    if (row.theirs == tensor) return {std::string(row.ours), -1, false, row.cut};
  const auto [module, is_weight] = parameter_of(tensor);
  // Routers have their biases under other names, and shared experts have none.
  const bool has_none = module.starts_with("mlp.router") || module.starts_with("mlp.shared_expert");
  return has_none && !is_weight ? MegatronName{} : look_up(in_layers, module, is_weight);
}

MegatronName name_in_module(std::string_view tensor) {
  if (take_prefix(tensor, "transformer_layer.") || take_prefix(tensor, "mtp_model_layer."))
    return name_in_layer(tensor);
  const auto [module, is_weight] = parameter_of(tensor);
  return look_up(in_modules, module, is_weight);
}

}  // namespace

MegatronName megatron_name(std::string_view theirs) {
  std::string_view rest = theirs;
  while (take_prefix(rest, "module.") || take_prefix(rest, "language_model.")) {
  }
  // Bias over the vocabulary of the masked-word head.
  if (rest == "lm_head.bias" || rest == "output_layer.bias")
    return {"masked_head.bias", -1, false, words};
  if (const auto place = place_of(rest)) {
    if (place->number < 0) return {};
    MegatronName name = place->is_module ? name_in_module(place->rest) : name_in_layer(place->rest);
    name.layer = place->number;
    name.is_module = place->is_module;
    return name;
  }
  const auto [module, is_weight] = parameter_of(rest);
  MegatronName name = look_up(outside, module, is_weight);
  name.is_copy = module == "word_embeddings_for_head" || module == "word_embeddings";
  return name;
}

bool is_of_megatron_core(std::string_view theirs) {
  return theirs.find(".linear_qkv.") != theirs.npos || theirs.find(".linear_fc1.") != theirs.npos;
}

bool is_megatron_buffer(std::string_view theirs) {
  return theirs.ends_with("._extra_state") || theirs.ends_with("rotary_pos_emb.inv_freq") ||
         theirs.ends_with("rotary_emb.inv_freq") || theirs.ends_with(".position_ids");
}

}  // namespace trireme
