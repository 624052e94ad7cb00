// BLOOM: ALiBi and a norm after the embedding.
#include <nlohmann/json.hpp>

#include "formats/huggingface/kind.h"

namespace trireme {
namespace {

// Older files use other names for some keys.
ModelConfig read_bloom(const HuggingFaceReader& json) {
  json.must_be("apply_residual_connection_post_layernorm", false);
  json.must_be("is_causal", true);
  ModelConfig m;
  m.family = "gpt";
  m.position = PositionEncoding::alibi;
  m.embedding_norm = true;
  m.num_layers = json.size(json.either("n_layer", "num_hidden_layers"), "num_layers");
  m.hidden_size = json.size(json.either("hidden_size", "n_embed"), "hidden_size");
  m.num_heads = json.size(json.either("n_head", "num_attention_heads"), "num_heads");
  m.ffn_hidden_size = 4 * m.hidden_size;
  for (const char* key : {"n_inner", "intermediate_size"})
    if (json.has(key)) json.must_be(key, m.ffn_hidden_size);
  m.max_positions = json.size("seq_length", "max_positions", 2048);
  m.vocab_size = json.size("vocab_size", "vocab_size");
  m.norm_eps = json.number("layer_norm_epsilon", "norm_eps", 1e-5);
  m.tie_embeddings = json.flag("tie_word_embeddings", true);
  m.hidden_dropout = json.number("hidden_dropout", "hidden_dropout", 0);
  m.attention_dropout = json.number("attention_dropout", "attention_dropout", 0);
  m.init_std = json.number("initializer_range", "init_std", 0.02);
  return m;
}

HuggingFaceJson write_bloom(const ModelConfig& m) {
  return {{"vocab_size", m.vocab_size},
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

constexpr HuggingFaceInertKey bloom_keys[] = {
    {"attention_softmax_in_fp32"},
    {"bias_dropout_fusion"},
    {"masked_softmax_fusion"},
    {"offset_alibi"},
    {"skip_bias_add"},
    {"skip_bias_add_qkv"},
    {"slow_but_exact"},
};

}  // namespace

const HuggingFaceKind bloom_kind{"BloomForCausalLM", "bloom",     &bloom_names,
                                 read_bloom,         write_bloom, bloom_keys};

}  // namespace trireme
