// Hugging Face's config.json: from it to a model of ours, and back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "config/config.h"
#include "formats/tokens.h"

namespace trireme {

// The kinds of model that are read and written.
enum class HuggingFaceKind : std::uint8_t {
  gpt2,           // GPT2LMHeadModel
  bloom,          // BloomForCausalLM: ALiBi and a norm after the embedding
  llama,          // LlamaForCausalLM; MistralForCausalLM without a window is read as one
  mistral,        // MistralForCausalLM: attention within a window
  qwen2,          // Qwen2ForCausalLM: biases of queries, keys and values alone
  qwen3,          // Qwen3ForCausalLM: heads of queries and keys are normalized
  olmo2,          // Olmo2ForCausalLM: norms after attention and MLP, and over all heads
  gemma,          // GemmaForCausalLM: a scaled embedding, 1 + weight in norms, GELU in the gate
  gemma2,         // Gemma2ForCausalLM: caps, norms before and after, windows in every second layer
  mixtral,        // MixtralForCausalLM
  qwen2_moe,      // Qwen2MoeForCausalLM
  qwen3_moe,      // Qwen3MoeForCausalLM
  olmoe,          // OlmoeForCausalLM
  deepseek_v3,    // DeepseekV3ForCausalLM: latent attention, experts by sigmoids and groups
  bert,           // BertForPreTraining, BertForMaskedLM: norms after the sums
  megatron_bert,  // MegatronBertForPreTraining and so on: norms before the layers
};

struct HuggingFaceModel {
  HuggingFaceKind kind = HuggingFaceKind::gpt2;
  ModelConfig model;     // resolved
  SpecialTokens tokens;  // those that lie in the vocabulary
  std::string note;      // about settings that have no effect, or ""
};

// Reads `folder`/config.json. Refused (exit code 2): a folder without it, values of the wrong type,
// models of another kind, and settings that our models cannot compute, naming file, key and value.
HuggingFaceModel read_huggingface_config(const fs::path& folder);
// The same from text; `name` stands for the file in messages.
HuggingFaceModel parse_huggingface_config(std::string_view text, const std::string& name);

// The kind as which a model can be exported. Refused (exit code 2) where none computes the same,
// naming the key that prevents it.
HuggingFaceKind huggingface_kind(const ModelConfig& model);

// Of the norms within latent attention, which DeepseekV3ForCausalLM has whatever rms_norm_eps says.
inline constexpr double huggingface_latent_eps = 1e-6;

// What transformers calls a kind: "LlamaForCausalLM", "llama".
const char* huggingface_class(HuggingFaceKind kind);
// The same of a model, which a BERT without the sentence-order head is of: "BertForMaskedLM".
const char* huggingface_class(HuggingFaceKind kind, const ModelConfig& model);
const char* huggingface_model_type(HuggingFaceKind kind);
// What the names of all tensors but those of the heads begin with: "model.".
const char* huggingface_prefix(HuggingFaceKind kind);

// config.json and generation_config.json. `torch_dtype`: "float32", "bfloat16", "float16".
std::string huggingface_config_text(const HuggingFaceModel& model, std::string_view torch_dtype);
std::string huggingface_generation_text(const SpecialTokens& tokens);
// What neither it nor the weights say of how the model is trained, for the user to know; or "".
std::string huggingface_note(const ModelConfig& model);

}  // namespace trireme
