// The table of the classes of transformers.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "interop/huggingface_config.h"

namespace trireme {
namespace {

struct KindNames {
  HuggingFaceKind kind;
  const char *class_name, *model_type, *prefix;
};

constexpr std::array<KindNames, 16> kKinds{{
    {HuggingFaceKind::gpt2, "GPT2LMHeadModel", "gpt2", "transformer."},
    {HuggingFaceKind::bloom, "BloomForCausalLM", "bloom", "transformer."},
    {HuggingFaceKind::llama, "LlamaForCausalLM", "llama", "model."},
    {HuggingFaceKind::mistral, "MistralForCausalLM", "mistral", "model."},
    {HuggingFaceKind::qwen2, "Qwen2ForCausalLM", "qwen2", "model."},
    {HuggingFaceKind::qwen3, "Qwen3ForCausalLM", "qwen3", "model."},
    {HuggingFaceKind::olmo2, "Olmo2ForCausalLM", "olmo2", "model."},
    {HuggingFaceKind::gemma, "GemmaForCausalLM", "gemma", "model."},
    {HuggingFaceKind::gemma2, "Gemma2ForCausalLM", "gemma2", "model."},
    {HuggingFaceKind::mixtral, "MixtralForCausalLM", "mixtral", "model."},
    {HuggingFaceKind::qwen2_moe, "Qwen2MoeForCausalLM", "qwen2_moe", "model."},
    {HuggingFaceKind::qwen3_moe, "Qwen3MoeForCausalLM", "qwen3_moe", "model."},
    {HuggingFaceKind::olmoe, "OlmoeForCausalLM", "olmoe", "model."},
    {HuggingFaceKind::deepseek_v3, "DeepseekV3ForCausalLM", "deepseek_v3", "model."},
    {HuggingFaceKind::bert, "BertForPreTraining", "bert", "bert."},
    {HuggingFaceKind::megatron_bert, "MegatronBertForPreTraining", "megatron-bert", "bert."},
}};

const KindNames& names_of(HuggingFaceKind kind) {
  const auto at = std::ranges::find(kKinds, kind, &KindNames::kind);
  TRIREME_CHECK(at != kKinds.end());
  return *at;
}

}  // namespace

const char* huggingface_class(HuggingFaceKind kind) {
  return names_of(kind).class_name;
}

const char* huggingface_model_type(HuggingFaceKind kind) {
  return names_of(kind).model_type;
}

const char* huggingface_prefix(HuggingFaceKind kind) {
  return names_of(kind).prefix;
}

}  // namespace trireme
