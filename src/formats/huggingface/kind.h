// Kinds of Hugging Face models: one row per transformers class describes it completely.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "formats/huggingface/reader.h"
#include "tensors/mapping.h"

namespace trireme {

using HuggingFaceJson = nlohmann::ordered_json;
struct HuggingFaceKind;

// Storage of a layer's experts in the other program's tensors.
enum class ExpertStorage : std::uint8_t {
  apart,  // separate tensors per expert: Hugging Face files
  fused,  // mlp.experts.gate_up_proj and down_proj: in memory since transformers 5
};

// A tensor that must be a copy of another one if embeddings are tied (or if they are not).
struct HuggingFaceCopy {
  std::string_view copy, original;
  bool tied = true;
};

// Tensor names, shared by several kinds (names.cpp).
struct HuggingFaceNames {
  const char* prefix;                         // of all tensors except heads: "model."
  std::span<const std::string_view> buffers;  // name endings of tensors that are not weights
  std::span<const HuggingFaceCopy> copies;
  TensorMapping (*map)(const ModelConfig& model, const HuggingFaceKind& kind,
                       ExpertStorage storage);
};
extern const HuggingFaceNames gpt2_names, bloom_names, llama_names, nemotron_h_names, bert_names;

// Names of the parts of an MoE layer for llama_names.
struct HuggingFaceExpertNames {
  const char *layer = "mlp.", *gate = "gate_proj", *up = "up_proj", *down = "down_proj";
  const char* shared = "shared_expert.";
  const char* router = "gate";
  // Each tensor has all experts, with weights stored as [in, out]; by_rows: as [out, in], in
  // input_linear and output_linear.
  enum class Joint : std::uint8_t {
    no,
    gate_before_up,
    gate_and_up_take_turns,
    by_rows
  } joint = Joint::no;
  // The shared expert is named like the MLP of a layer without experts.
  bool shared_like_mlp = false;

  bool take_turns() const { return joint == Joint::gate_and_up_take_turns; }
};

// Names and storage of the other parts of a layer for llama_names.
struct HuggingFaceLayerNames {
  // Norms after attention and around the MLP. A model without norms after attention and MLP has
  // post_attention_layernorm before the MLP.
  const char *attention_out_norm = "post_attention_layernorm",
             *mlp_norm = "pre_feedforward_layernorm", *mlp_out_norm = "post_feedforward_layernorm";
  const char *mlp = "mlp.", *gate_up = "gate_up_proj", *mlp_down = "down_proj";
  bool qkv_together = false;      // stored as qkv_proj: queries, keys, values
  bool gate_up_together = false;  // stored as `gate_up`: gate, up
  bool turns_neighbors = false;   // RoPE on adjacent pairs; ours pairs the halves of a head
  // The only module of multi-token prediction is "mtp.", without copies of the word tables; false:
  // modules are layers after the last one.
  bool module_apart = false;
  // Linear attention has in_proj_qkv, in_proj_z, in_proj_b and in_proj_a; false: in_proj_qkvz and
  // in_proj_ba, by key heads.
  bool linear_parts = false;
};

// Tokenizer files that can be read without tokenizer.json.
enum class HuggingFaceTokenizer : std::uint8_t { any, gpt2, bert };

struct HuggingFaceKind {
  const char *class_name, *model_type;  // "LlamaForCausalLM", "llama"
  const HuggingFaceNames* names;
  // Reads the model of a config.json, before defaults are filled in. Refused (exit code 2):
  // settings that our models cannot compute.
  ModelConfig (*read)(const HuggingFaceReader& json);
  // Writes a model's keys. Settings that the class cannot express are written as its fixed values:
  // the readback detects the difference, so nothing needs to be checked here.
  HuggingFaceJson (*write)(const ModelConfig& model);
  std::span<const HuggingFaceInertKey> inert;  // besides huggingface_common_keys()
  HuggingFaceExpertNames experts = {};
  HuggingFaceTokenizer tokenizer = HuggingFaceTokenizer::any;
  const char* masked_class = nullptr;  // name of a BERT without sentence-order head
  HuggingFaceLayerNames layers = {};
};

// Rows of all kinds (gpt2_kind, ...), in the order in which an export tries them.
#define TRIREME_HUGGINGFACE_KINDS(ROW) \
  ROW(gpt2)                            \
  ROW(bloom)                           \
  ROW(llama)                           \
  ROW(mistral)                         \
  ROW(qwen2)                           \
  ROW(qwen3)                           \
  ROW(olmo2)                           \
  ROW(gemma)                           \
  ROW(gemma2)                          \
  ROW(ministral)                       \
  ROW(ministral3)                      \
  ROW(smollm3)                         \
  ROW(phi3)                            \
  ROW(olmo3)                           \
  ROW(exaone4)                         \
  ROW(gemma3)                          \
  ROW(glm)                             \
  ROW(glm4)                            \
  ROW(granite)                         \
  ROW(granite_hybrid)                  \
  ROW(arcee)                           \
  ROW(mixtral)                         \
  ROW(qwen2_moe)                       \
  ROW(qwen3_moe)                       \
  ROW(qwen3_5)                         \
  ROW(qwen3_next)                      \
  ROW(qwen3_5_moe)                     \
  ROW(olmoe)                           \
  ROW(deepseek_v3)                     \
  ROW(kimi_k2)                         \
  ROW(glm4_moe)                        \
  ROW(dots1)                           \
  ROW(gpt_oss)                         \
  ROW(nemotron_h)                      \
  ROW(llama4)                          \
  ROW(bert)                            \
  ROW(megatron_bert)
#define TRIREME_HUGGINGFACE_ROW(name) extern const HuggingFaceKind name##_kind;
TRIREME_HUGGINGFACE_KINDS(TRIREME_HUGGINGFACE_ROW)
#undef TRIREME_HUGGINGFACE_ROW

// List of all kinds; a program may add its own.
std::vector<const HuggingFaceKind*>& huggingface_kinds();

// Reads a config.json as that kind; resolved, not validated.
ModelConfig read_as(const HuggingFaceKind& kind, const HuggingFaceReader& json);

// The kind for exporting a model: the first whose config.json describes the same model when read
// back. Refused (exit code 2) if there is none; the message names what the nearest kind cannot
// express.
const HuggingFaceKind* huggingface_kind(const ModelConfig& model);

// Name of the class; "BertForMaskedLM" for a BERT without the sentence-order head.
const char* huggingface_class(const HuggingFaceKind& kind, const ModelConfig& model);

// Feature that a file of an unsupported class requires and no model has, as the beginning of a
// message; "" if its keys do not tell.
std::string missing_for(const HuggingFaceReader& json);

// Keys that have no effect on any model.
std::span<const HuggingFaceInertKey> huggingface_common_keys();

}  // namespace trireme
