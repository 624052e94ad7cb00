// config.json of Llama and the models that differ from it by a few settings.
#pragma once

#include <vector>

#include "formats/huggingface/kind.h"

namespace trireme {

// What Llama and its relatives have in common, with what transformers assumes in each where a key
// is absent.
struct LlamaDefaults {
  std::int64_t kv_heads = 0;  // 0: as many as there are heads
  std::int64_t head_dim = 0;  // 0: hidden size / heads
  std::int64_t positions = 2048;
  double norm_eps = 1e-6;
  double rope_base = 10000;
  const char* activation = "silu";  // the only one that is read, under any of its names
  bool tie_embeddings = false;
  bool reads_rope = true;  // false: the caller does, who knows more
  MlpActivation mlp = MlpActivation::swiglu;
};
ModelConfig read_llama_like(const HuggingFaceReader& json, const LlamaDefaults& defaults);

// The experts of DeepSeek-V3 and its relatives, with what transformers assumes where a key is
// absent.
struct DeepSeekExperts {
  std::int64_t dense_layers, experts, top_k, inner, shared = 1;
  double scaling = 1;
  std::int64_t groups = 1, top_groups = 1;
  bool normalizes = true;
};
void read_deepseek_experts(const HuggingFaceReader& json, ModelConfig& m,
                           const DeepSeekExperts& defaults);
void write_deepseek_experts(HuggingFaceJson& json, const ModelConfig& m);

// Its keys for what all of them have, with rotary positions and silu.
HuggingFaceJson write_llama_like(const ModelConfig& m);

// Biases of a class whose attention and MLP have them, or neither.
void read_biases(const HuggingFaceReader& json, ModelConfig& m);
void write_biases(HuggingFaceJson& json, const ModelConfig& m);

void require_llama_activation(const HuggingFaceReader& json, const char* key, const char* only);

// Windows of attention: of all layers alike (Mistral, Mixtral), or of Qwen's keys.
void read_window(const HuggingFaceReader& json, ModelConfig& m);
void read_qwen_window(const HuggingFaceReader& json, ModelConfig& m);
void read_qwen2_moe_window(const HuggingFaceReader& json, ModelConfig& m);
void refuse_window(const HuggingFaceReader& json);
// The layers that layer_types gives a window, and the window of such layers, which are some.
std::vector<std::int64_t> read_layer_types(const HuggingFaceReader& json, const ModelConfig& m);
// Windows that use_sliding_window switches on, in the layers that layer_types names, or without it
// in these.
void read_switched_windows(const HuggingFaceReader& json, ModelConfig& m,
                           const std::vector<std::int64_t>& otherwise);
// The same without a switch; without layer_types in all layers, counted from 0, from
// max_window_layers on.
void read_later_windows(const HuggingFaceReader& json, ModelConfig& m, std::int64_t first);
// Windows in the layers that layer_types names, or without it in all but the last of each round,
// whose length `key` may give.
void read_rounds_of_windows(const HuggingFaceReader& json, ModelConfig& m, std::int64_t round,
                            const char* key = nullptr);
void give_window(const HuggingFaceReader& json, ModelConfig& m, std::vector<std::int64_t> with);
// Null where there is no window, since some kinds assume one where the key is absent.
void write_window(HuggingFaceJson& json, const ModelConfig& m);
void write_layer_types(HuggingFaceJson& json, const ModelConfig& m);
// The layers from one on have the window, or those that layer_types names.
void write_qwen_window(HuggingFaceJson& json, const ModelConfig& m);

// Keys without an effect, which several kinds have in common.
inline constexpr HuggingFaceInertKey mistral_keys[] = {
    {"attention_bias"},
    {"layer_types", "[null]"},
    {"max_sequence_length"},
    {"mlp_bias"},
};

inline constexpr HuggingFaceInertKey qwen2_keys[] = {
    {"attention_bias"},
    {"mlp_bias"},
    {"use_mrope", "[false]"},
};

inline constexpr HuggingFaceInertKey qwen3_keys[] = {
    {"mlp_bias"},
};

inline constexpr HuggingFaceInertKey olmo2_keys[] = {
    {"layer_types", "[null]"},
    {"mlp_bias"},
};

}  // namespace trireme
