// GPT-2.
#include <nlohmann/json.hpp>

#include "formats/huggingface/activations.h"
#include "formats/huggingface/kind.h"

namespace trireme {
namespace {

ModelConfig read_gpt2(const HuggingFaceReader& json) {
  json.must_be("scale_attn_weights", true);
  json.must_be("scale_attn_by_inverse_layer_idx", false);
  json.must_be("is_causal", true);
  ModelConfig m;
  m.family = "gpt";
  m.num_layers = json.size(json.either("n_layer", "num_hidden_layers"), "num_layers");
  m.hidden_size = json.size(json.either("n_embd", "hidden_size"), "hidden_size");
  m.num_heads = json.size(json.either("n_head", "num_attention_heads"), "num_heads");
  m.ffn_hidden_size = 4 * m.hidden_size;
  if (json.has("n_inner")) m.ffn_hidden_size = json.size("n_inner", "ffn_hidden_size");
  m.max_positions =
      json.size(json.either("n_positions", "max_position_embeddings"), "max_positions");
  m.vocab_size = json.size("vocab_size", "vocab_size");
  m.activation = json.activation("activation_function", "gelu_new");
  m.norm_eps = json.number("layer_norm_epsilon", "norm_eps", 1e-5);
  m.tie_embeddings = json.flag("tie_word_embeddings", true);
  m.hidden_dropout = json.number("resid_pdrop", "hidden_dropout", 0.1);
  if (json.number("embd_pdrop", "hidden_dropout", 0.1) != m.hidden_dropout)
    json.refuse(json.has("embd_pdrop") ? "embd_pdrop" : "resid_pdrop",
                "embd_pdrop and resid_pdrop must be the same");
  m.attention_dropout = json.number("attn_pdrop", "attention_dropout", 0.1);
  m.init_std = json.number("initializer_range", "init_std", 0.02);
  return m;
}

HuggingFaceJson write_gpt2(const ModelConfig& m) {
  return {{"vocab_size", m.vocab_size},
          {"n_positions", m.max_positions},
          {"n_embd", m.hidden_size},
          {"n_layer", m.num_layers},
          {"n_head", m.num_heads},
          {"n_inner", m.ffn_hidden_size},
          {"activation_function", huggingface_activation(m.activation)},
          {"layer_norm_epsilon", m.norm_eps},
          {"resid_pdrop", m.hidden_dropout},
          {"embd_pdrop", m.hidden_dropout},
          {"attn_pdrop", m.attention_dropout},
          {"initializer_range", m.init_std},
          {"tie_word_embeddings", m.tie_embeddings}};
}

constexpr HuggingFaceInertKey gpt2_keys[] = {
    {"n_ctx"},
    {"predict_special_tokens"},
    {"reorder_and_upcast_attn"},
    {"summary_activation"},
    {"summary_first_dropout"},
    {"summary_proj_to_labels"},
    {"summary_type"},
    {"summary_use_proj"},
};

}  // namespace

const HuggingFaceKind gpt2_kind{.class_name = "GPT2LMHeadModel",
                                .model_type = "gpt2",
                                .names = &gpt2_names,
                                .read = read_gpt2,
                                .write = write_gpt2,
                                .inert = gpt2_keys,
                                .tokenizer = HuggingFaceTokenizer::gpt2};

}  // namespace trireme
