// config.json of Llama and of models that differ from it in a few settings.
#pragma once

#include <vector>

#include "formats/huggingface/kind.h"

namespace trireme {

// Defaults that transformers assumes for absent keys, for Llama and each of its
// relatives.
struct LlamaDefaults {
  std::int64_t kv_heads = 0;  // 0: number of heads
  std::int64_t head_dim = 0;  // 0: hidden size / heads
  std::int64_t positions = 2048;
  double norm_eps = 1e-6;
  double rope_base = 10000;
  const char* activation = "silu";  // the only one accepted, under any of its names
  bool tie_embeddings = false;
  bool reads_rope = true;                   // false: the caller reads RoPE itself
  const char* inner = "intermediate_size";  // key of the width of the MLP
  MlpActivation mlp = MlpActivation::swiglu;
};
ModelConfig read_llama_like(const HuggingFaceReader& json, const LlamaDefaults& defaults);

// Defaults that transformers assumes for absent keys, for the experts of DeepSeek-V3 and its
// relatives.
struct DeepSeekExperts {
  std::int64_t dense_layers, experts, top_k, inner, shared = 1;
  double scaling = 1;
  std::int64_t groups = 1, top_groups = 1;
  bool normalizes = true;
};
void read_deepseek_experts(const HuggingFaceReader& json, ModelConfig& m,
                           const DeepSeekExperts& defaults);
// Reads the number of modules of multi-token prediction; call after read_deepseek_experts().
void read_modules(const HuggingFaceReader& json, ModelConfig& m);
void write_deepseek_experts(HuggingFaceJson& json, const ModelConfig& m);

// Experts of Qwen's classes: how many, and the layers that have them (experts.cpp).
void read_experts(const HuggingFaceReader& json, ModelConfig& m, std::int64_t otherwise,
                  std::int64_t top_k, double coefficient);
void read_sparse_layers(const HuggingFaceReader& json, ModelConfig& m);
void write_experts(HuggingFaceJson& json, const ModelConfig& m, const char* count);
void write_sparse_layers(HuggingFaceJson& json, const ModelConfig& m);

// Keys common to all of them, with RoPE and SiLU.
HuggingFaceJson write_llama_like(const ModelConfig& m);

// Biases of a class whose attention and MLP both have them, or neither.
void read_biases(const HuggingFaceReader& json, ModelConfig& m);
void write_biases(HuggingFaceJson& json, const ModelConfig& m);

// Layers (from 0) without RoPE: no_rope_layers has a 1 for each layer with it; absent or empty: the
// last of every round has none (nope.cpp).
std::vector<std::int64_t> layers_without_rope(const HuggingFaceReader& json, const ModelConfig& m);
void write_layers_with_rope(HuggingFaceJson& json, const ModelConfig& m);

// Granite's factors on embeddings, residual branches, scores and logits (granite.cpp).
void read_granite_factors(const HuggingFaceReader& json, ModelConfig& m);
void write_granite_factors(HuggingFaceJson& json, const ModelConfig& m);

void require_llama_activation(const HuggingFaceReader& json, const char* key, const char* only);

// Sliding windows: the same in all layers (Mistral, Mixtral), or given by Qwen's keys.
void read_window(const HuggingFaceReader& json, ModelConfig& m);
void read_qwen_window(const HuggingFaceReader& json, ModelConfig& m);
void read_qwen2_moe_window(const HuggingFaceReader& json, ModelConfig& m);
void refuse_window(const HuggingFaceReader& json);
// Layers (from 0) to which layer_types gives a window. give_window() sets that window.
std::vector<std::int64_t> read_layer_types(const HuggingFaceReader& json, const ModelConfig& m);
// Windows enabled by use_sliding_window, in the layers named by layer_types, or without it in
// `otherwise`.
void read_switched_windows(const HuggingFaceReader& json, ModelConfig& m,
                           const std::vector<std::int64_t>& otherwise);
// Same without a switch; without layer_types, in all layers (from 0) from max_window_layers
// on.
void read_later_windows(const HuggingFaceReader& json, ModelConfig& m, std::int64_t first);
// Windows in the layers named by layer_types; without it, in all but the last of each round of
// layers, whose length `key` may set.
void read_rounds_of_windows(const HuggingFaceReader& json, ModelConfig& m, std::int64_t round,
                            const char* key = nullptr);
void give_window(const HuggingFaceReader& json, ModelConfig& m, std::vector<std::int64_t> with);
// Writes null without a window, since some kinds assume one if the key is absent.
void write_window(HuggingFaceJson& json, const ModelConfig& m);
void write_layer_types(HuggingFaceJson& json, const ModelConfig& m);
// Layers from a given one on have the window, or those named by layer_types.
void write_qwen_window(HuggingFaceJson& json, const ModelConfig& m);

// Keys without effect that several kinds share.
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
