// BERT, with post-norm or, as in Megatron, pre-norm layers.
#include <nlohmann/json.hpp>

#include "formats/huggingface/activations.h"
#include "formats/huggingface/kind.h"

namespace trireme {
namespace {

ModelConfig read_megatron_bert(const HuggingFaceReader& json) {
  if (json.text("position_embedding_type", "absolute") != "absolute") {
    json.refuse("position_embedding_type", "only absolute is supported");
  }
  json.must_be("is_decoder", false);
  json.must_be("is_causal", false);
  json.must_be("type_vocab_size", 2);
  ModelConfig m;
  m.family = "bert";
  m.num_layers = json.size("num_hidden_layers", "num_layers");
  m.hidden_size = json.size("hidden_size", "hidden_size");
  m.num_heads = json.size("num_attention_heads", "num_heads");
  m.ffn_hidden_size = json.size("intermediate_size", "ffn_hidden_size");
  m.max_positions = json.size("max_position_embeddings", "max_positions");
  m.vocab_size = json.size("vocab_size", "vocab_size");
  m.activation = json.activation("hidden_act", "gelu");
  m.norm_eps = json.number("layer_norm_eps", "norm_eps", 1e-12);
  m.tie_embeddings = json.flag("tie_word_embeddings", true);
  m.hidden_dropout = json.number("hidden_dropout_prob", "hidden_dropout", 0.1);
  m.attention_dropout = json.number("attention_probs_dropout_prob", "attention_dropout", 0.1);
  m.init_std = json.number("initializer_range", "init_std", 0.02);
  return m;
}

ModelConfig read_bert(const HuggingFaceReader& json) {
  ModelConfig m = read_megatron_bert(json);
  m.norm_placement = NormPlacement::post;
  return m;
}

HuggingFaceJson write_bert(const ModelConfig& m) {
  return {{"vocab_size", m.vocab_size},
          {"max_position_embeddings", m.max_positions},
          {"type_vocab_size", 2},
          {"hidden_size", m.hidden_size},
          {"intermediate_size", m.ffn_hidden_size},
          {"num_hidden_layers", m.num_layers},
          {"num_attention_heads", m.num_heads},
          {"hidden_act", huggingface_activation(m.activation)},
          {"layer_norm_eps", m.norm_eps},
          {"hidden_dropout_prob", m.hidden_dropout},
          {"attention_probs_dropout_prob", m.attention_dropout},
          {"initializer_range", m.init_std},
          {"tie_word_embeddings", m.tie_embeddings}};
}

constexpr HuggingFaceInertKey bert_keys[] = {
    {"directionality"},       {"pooler_fc_size"},       {"pooler_num_attention_heads"},
    {"pooler_num_fc_layers"}, {"pooler_size_per_head"}, {"pooler_type"},
};

}  // namespace

const HuggingFaceKind bert_kind{.class_name = "BertForPreTraining",
                                .model_type = "bert",
                                .names = &bert_names,
                                .read = read_bert,
                                .write = write_bert,
                                .inert = bert_keys,
                                .tokenizer = HuggingFaceTokenizer::bert,
                                .masked_class = "BertForMaskedLM"};
const HuggingFaceKind megatron_bert_kind{.class_name = "MegatronBertForPreTraining",
                                         .model_type = "megatron-bert",
                                         .names = &bert_names,
                                         .read = read_megatron_bert,
                                         .write = write_bert,
                                         .inert = bert_keys,
                                         .tokenizer = HuggingFaceTokenizer::bert,
                                         .masked_class = "MegatronBertForMaskedLM"};

}  // namespace trireme
