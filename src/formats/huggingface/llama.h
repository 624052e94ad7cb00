// config.json of Llama and the models that differ from it by a few settings.
#pragma once

#include <span>
#include <string>

#include "config/config.h"
#include "formats/huggingface/config.h"
#include "formats/huggingface/reader.h"

namespace trireme {

struct LlamaRelative {
  HuggingFaceKind kind;
  ModelConfig (*read)(const HuggingFaceReader& json);
};
std::span<const LlamaRelative> llama_relatives();

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
};
ModelConfig read_llama_like(const HuggingFaceReader& json, const LlamaDefaults& defaults);

// Windows of attention: of all layers alike (Mistral, Mixtral), or of Qwen's keys.
void read_window(const HuggingFaceReader& json, ModelConfig& m);
void read_qwen_window(const HuggingFaceReader& json, ModelConfig& m);
void read_qwen2_moe_window(const HuggingFaceReader& json, ModelConfig& m);
void refuse_window(const HuggingFaceReader& json);

// Relatives with experts.
ModelConfig read_mixtral(const HuggingFaceReader& json);
ModelConfig read_qwen2_moe(const HuggingFaceReader& json);
ModelConfig read_qwen3_moe(const HuggingFaceReader& json);
ModelConfig read_olmoe(const HuggingFaceReader& json);
// Latent attention and experts (huggingface_deepseek.cpp), and the way back: its own keys.
ModelConfig read_deepseek(const HuggingFaceReader& json);

}  // namespace trireme
