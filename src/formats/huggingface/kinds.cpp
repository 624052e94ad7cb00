// The table of the classes of transformers, each with the keys of its config.json that change
// nothing. Keys of biases are among them where a class does not read them: the tensors show it.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "formats/huggingface/config.h"
#include "formats/huggingface/keys.h"

namespace trireme {
namespace {

using Keys = std::span<const HuggingFaceInertKey>;

struct KindRow {
  HuggingFaceKind kind;
  const char *class_name, *model_type, *prefix;
  Keys inert;
  const char* masked_class = nullptr;  // of a BERT without the sentence-order head
};

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

constexpr HuggingFaceInertKey bloom_keys[] = {
    {"attention_softmax_in_fp32"},
    {"bias_dropout_fusion"},
    {"masked_softmax_fusion"},
    {"offset_alibi"},
    {"skip_bias_add"},
    {"skip_bias_add_qkv"},
    {"slow_but_exact"},
};

constexpr HuggingFaceInertKey llama_keys[] = {
    {"is_llama_config"},
    {"layer_types", "[null]"},
    {"max_sequence_length"},
    {"rope_interleaved", "[false]"},
    {"use_sliding_window", "[false]"},
};

constexpr HuggingFaceInertKey mistral_keys[] = {
    {"attention_bias"},
    {"layer_types", "[null]"},
    {"max_sequence_length"},
    {"mlp_bias"},
};

constexpr HuggingFaceInertKey qwen2_keys[] = {
    {"attention_bias"},
    {"mlp_bias"},
    {"use_mrope", "[false]"},
};

constexpr HuggingFaceInertKey olmo2_keys[] = {
    {"layer_types", "[null]"},
    {"mlp_bias"},
};

constexpr HuggingFaceInertKey qwen3_keys[] = {
    {"mlp_bias"},
};

constexpr HuggingFaceInertKey qwen3_moe_keys[] = {
    {"max_window_layers"},  // a window is that of all layers
    {"mlp_bias"},
};

constexpr HuggingFaceInertKey deepseek_keys[] = {
    {"ep_size"},
    {"layer_types", "[null]"},
    {"mlp_bias"},
    // Of layers after the last one, which predict more than one token.
    {"num_mtp_layers"},
    {"num_nextn_predict_layers"},
};

constexpr HuggingFaceInertKey bert_keys[] = {
    {"directionality"},       {"pooler_fc_size"},       {"pooler_num_attention_heads"},
    {"pooler_num_fc_layers"}, {"pooler_size_per_head"}, {"pooler_type"},
};

constexpr std::array<KindRow, 16> kKinds{{
    {HuggingFaceKind::gpt2, "GPT2LMHeadModel", "gpt2", "transformer.", gpt2_keys},
    {HuggingFaceKind::bloom, "BloomForCausalLM", "bloom", "transformer.", bloom_keys},
    {HuggingFaceKind::llama, "LlamaForCausalLM", "llama", "model.", llama_keys},
    {HuggingFaceKind::mistral, "MistralForCausalLM", "mistral", "model.", mistral_keys},
    {HuggingFaceKind::qwen2, "Qwen2ForCausalLM", "qwen2", "model.", qwen2_keys},
    {HuggingFaceKind::qwen3, "Qwen3ForCausalLM", "qwen3", "model.", qwen3_keys},
    {HuggingFaceKind::olmo2, "Olmo2ForCausalLM", "olmo2", "model.", olmo2_keys},
    {HuggingFaceKind::gemma, "GemmaForCausalLM", "gemma", "model.", olmo2_keys},
    {HuggingFaceKind::gemma2, "Gemma2ForCausalLM", "gemma2", "model.", qwen3_keys},
    {HuggingFaceKind::mixtral, "MixtralForCausalLM", "mixtral", "model.", mistral_keys},
    {HuggingFaceKind::qwen2_moe, "Qwen2MoeForCausalLM", "qwen2_moe", "model.", qwen2_keys},
    {HuggingFaceKind::qwen3_moe, "Qwen3MoeForCausalLM", "qwen3_moe", "model.", qwen3_moe_keys},
    {HuggingFaceKind::olmoe, "OlmoeForCausalLM", "olmoe", "model.", olmo2_keys},
    {HuggingFaceKind::deepseek_v3, "DeepseekV3ForCausalLM", "deepseek_v3", "model.", deepseek_keys},
    {HuggingFaceKind::bert, "BertForPreTraining", "bert", "bert.", bert_keys, "BertForMaskedLM"},
    {HuggingFaceKind::megatron_bert, "MegatronBertForPreTraining", "megatron-bert", "bert.",
     bert_keys, "MegatronBertForMaskedLM"},
}};

const KindRow& row_of(HuggingFaceKind kind) {
  const auto at = std::ranges::find(kKinds, kind, &KindRow::kind);
  TRIREME_CHECK(at != kKinds.end());
  return *at;
}

}  // namespace

const char* huggingface_class(HuggingFaceKind kind) {
  return row_of(kind).class_name;
}

const char* huggingface_class(HuggingFaceKind kind, const ModelConfig& model) {
  const KindRow& row = row_of(kind);
  return row.masked_class && !model.order_head ? row.masked_class : row.class_name;
}

const char* huggingface_model_type(HuggingFaceKind kind) {
  return row_of(kind).model_type;
}

const char* huggingface_prefix(HuggingFaceKind kind) {
  return row_of(kind).prefix;
}

std::span<const HuggingFaceInertKey> huggingface_keys_of(HuggingFaceKind kind) {
  return row_of(kind).inert;
}

}  // namespace trireme
