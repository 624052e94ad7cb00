// Two tables: inside of the layers and outside.
#include "interop/megatron_names.h"

#include <charconv>

namespace trireme {
namespace {

using enum MegatronCut;

struct Module {
  std::string_view theirs, ours;
  MegatronCut weight, bias;
};

constexpr Module in_layers[] = {
    {"input_layernorm", "input_norm", none, none},
    {"input_norm", "input_norm", none, none},
    {"self_attention.linear_qkv.layer_norm", "input_norm", none, none},
    {"attention.query_key_value", "attention.qkv", heads, heads},
    {"self_attention.query_key_value", "attention.qkv", heads, heads},
    {"self_attention.linear_qkv", "attention.qkv", heads, heads},
    {"self_attention.q_layernorm", "attention.query_norm", none, none},
    {"self_attention.k_layernorm", "attention.key_norm", none, none},
    {"attention.dense", "attention.out", columns, none},
    {"self_attention.dense", "attention.out", columns, none},
    {"self_attention.linear_proj", "attention.out", columns, none},
    {"post_attention_layernorm", "mlp_norm", none, none},
    {"post_attention_norm", "mlp_norm", none, none},
    {"pre_mlp_layernorm", "mlp_norm", none, none},
    {"mlp.linear_fc1.layer_norm", "mlp_norm", none, none},
    {"mlp.dense_h_to_4h", "mlp.up", gated, gated},
    {"mlp.linear_fc1", "mlp.up", gated, gated},
    {"mlp.dense_4h_to_h", "mlp.down", columns, none},
    {"mlp.linear_fc2", "mlp.down", columns, none},
};

constexpr Module outside[] = {
    {"embedding.word_embeddings", "embedding.word", words, none},
    {"embedding.word_embeddings.norm", "embedding.norm", none, none},
    {"embedding.position_embeddings", "embedding.position", none, none},
    {"embedding.tokentype_embeddings", "embedding.token_type", none, none},
    {"encoder.final_layernorm", "final_norm", none, none},
    {"encoder.final_norm", "final_norm", none, none},
    {"transformer.final_layernorm", "final_norm", none, none},
    {"decoder.final_layernorm", "final_norm", none, none},
    {"decoder.final_norm", "final_norm", none, none},
    {"output_layer", "head", words, none},
    {"word_embeddings_for_head", "embedding.word", words, none},
    {"word_embeddings", "embedding.word", words, none},
    {"pooler.dense", "pooler", none, none},
    {"lm_head.dense", "masked_head.dense", none, none},
    {"lm_head.layernorm", "masked_head.norm", none, none},
    {"lm_head.norm", "masked_head.norm", none, none},
    {"lm_head.layer_norm", "masked_head.norm", none, none},
    {"binary_head", "order_head", none, none},
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
    return {ours, -1, is_weight ? row.weight : row.bias};
  }
  return {};
}

}  // namespace

MegatronName megatron_name(std::string_view theirs) {
  std::string_view rest = theirs;
  while (take_prefix(rest, "module.") || take_prefix(rest, "language_model.")) {
  }
  // The words of the masked-word head.
  if (rest == "lm_head.bias" || rest == "output_layer.bias") return {"masked_head.bias", -1, words};
  bool is_weight = false, has_ending = false;
  for (const std::string_view ending : {".weight", "_weight", ".bias", "_bias"}) {
    if (!rest.ends_with(ending)) continue;
    rest.remove_suffix(ending.size());
    is_weight = ending.ends_with("weight");
    has_ending = true;
    break;
  }
  if (!has_ending) return {};
  std::string_view layer = rest;
  const bool inside = take_prefix(layer, "encoder.layers.") ||
                      take_prefix(layer, "transformer.layers.") ||
                      take_prefix(layer, "decoder.layers.");
  if (!inside) {
    MegatronName name = look_up(outside, rest, is_weight);
    name.is_copy = rest == "word_embeddings_for_head" || rest == "word_embeddings";
    return name;
  }
  std::int64_t number = -1;
  const char* const end = layer.data() + layer.size();
  const auto [dot, error] = std::from_chars(layer.data(), end, number);
  constexpr std::int64_t most_layers = 1'000'000;
  if (error != std::errc() || dot == end || *dot != '.' || number < 0 || number > most_layers)
    return {};
  MegatronName name = look_up(in_layers, std::string_view(dot + 1, end), is_weight);
  name.layer = number;
  return name;
}

bool is_megatron_buffer(std::string_view theirs) {
  return theirs.ends_with("._extra_state") || theirs.ends_with("rotary_pos_emb.inv_freq") ||
         theirs.ends_with("rotary_emb.inv_freq") || theirs.ends_with(".position_ids");
}

}  // namespace trireme
