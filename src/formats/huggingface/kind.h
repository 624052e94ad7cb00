// A kind of Hugging Face model: a class of transformers, of which one row says all.
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

// How theirs has the experts of a layer.
enum class ExpertStorage : std::uint8_t {
  apart,  // tensors of each: in files of Hugging Face
  fused,  // all in mlp.experts.gate_up_proj and down_proj: in memory, since transformers 5
};

// A tensor that must be a copy of another one, where embeddings are tied or where they are not.
struct HuggingFaceCopy {
  std::string_view copy, original;
  bool tied = true;
};

// The names of tensors, which several kinds have (names.cpp).
struct HuggingFaceNames {
  const char* prefix;                         // of all tensors but those of the heads: "model."
  std::span<const std::string_view> buffers;  // endings of those that are no weights
  std::span<const HuggingFaceCopy> copies;
  TensorMapping (*map)(const ModelConfig& model, const HuggingFaceKind& kind,
                       ExpertStorage storage);
};
extern const HuggingFaceNames gpt2_names, bloom_names, llama_names, bert_names;

// What llama_names calls the parts of a layer with experts.
struct HuggingFaceExpertNames {
  const char *layer = "mlp.", *gate = "gate_proj", *up = "up_proj", *down = "down_proj";
  const char* shared = "shared_expert.";
  const char* router = "gate";
  // Each tensor has all experts, with weights stored as [in, out], and gate and up take turns.
  bool interleaved = false;
};

// What llama_names calls the other parts of a layer, and how they are stored.
struct HuggingFaceLayerNames {
  // Of norms after attention and around the MLP. Without any after, the MLP's is
  // post_attention_layernorm.
  const char *attention_out_norm = "post_attention_layernorm",
             *mlp_norm = "pre_feedforward_layernorm", *mlp_out_norm = "post_feedforward_layernorm";
  bool qkv_together = false;      // in qkv_proj: queries, then keys, then values
  bool gate_up_together = false;  // in gate_up_proj: gate, then up
  bool turns_neighbors = false;   // positions turn pairs of neighbors; ours the halves of a head
};

// Whose files of a tokenizer are read without tokenizer.json.
enum class HuggingFaceTokenizer : std::uint8_t { any, gpt2, bert };

struct HuggingFaceKind {
  const char *class_name, *model_type;  // "LlamaForCausalLM", "llama"
  const HuggingFaceNames* names;
  // The model of a config.json, before defaults are filled in. Refused (exit code 2): settings that
  // our models cannot compute.
  ModelConfig (*read)(const HuggingFaceReader& json);
  // The keys of a model. What the class cannot say is written as the class has it: reading the
  // file again shows the difference, so that nothing has to be checked here.
  HuggingFaceJson (*write)(const ModelConfig& model);
  std::span<const HuggingFaceInertKey> inert;  // besides huggingface_common_keys()
  HuggingFaceExpertNames experts = {};
  HuggingFaceTokenizer tokenizer = HuggingFaceTokenizer::any;
  const char* masked_class = nullptr;  // of a BERT without the sentence-order head
  HuggingFaceLayerNames layers = {};
};

// The rows of all kinds (gpt2_kind, ...), in the order in which they are tried for an export.
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
  ROW(arcee)                           \
  ROW(mixtral)                         \
  ROW(qwen2_moe)                       \
  ROW(qwen3_moe)                       \
  ROW(olmoe)                           \
  ROW(deepseek_v3)                     \
  ROW(kimi_k2)                         \
  ROW(glm4_moe)                        \
  ROW(dots1)                           \
  ROW(gpt_oss)                         \
  ROW(bert)                            \
  ROW(megatron_bert)
#define TRIREME_HUGGINGFACE_ROW(name) extern const HuggingFaceKind name##_kind;
TRIREME_HUGGINGFACE_KINDS(TRIREME_HUGGINGFACE_ROW)
#undef TRIREME_HUGGINGFACE_ROW

// The list of them, to which a program may add its own.
std::vector<const HuggingFaceKind*>& huggingface_kinds();

// The model of a config.json of that kind, resolved and not validated.
ModelConfig read_as(const HuggingFaceKind& kind, const HuggingFaceReader& json);

// The kind as which a model can be exported: the first whose config.json, read again, is that of
// the same model. Refused (exit code 2) where there is none, naming what the kind that comes
// nearest cannot say.
const HuggingFaceKind* huggingface_kind(const ModelConfig& model);

// The name of the class, or that of a BERT without the sentence-order head ("BertForMaskedLM").
const char* huggingface_class(const HuggingFaceKind& kind, const ModelConfig& model);

// What a file of a class that no kind has asks for and no model computes, as the beginning of a
// message; "" where its keys do not tell.
std::string missing_for(const HuggingFaceReader& json);

// Keys that change nothing of any model.
std::span<const HuggingFaceInertKey> huggingface_common_keys();

}  // namespace trireme
