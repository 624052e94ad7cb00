// Name table; torchtitan's names differ from Meta's in a few places.
#include "formats/llama/names.h"

#include <array>
#include <optional>
#include <string_view>

#include "formats/huggingface/names.h"

namespace trireme {
namespace {

struct Name {
  const char *meta, *huggingface, *torchtitan;
};
constexpr std::array<Name, 11> layer_names{{
    {"attention.wq.weight", "self_attn.q_proj.weight", "attention.qkv_linear.wq.weight"},
    {"attention.wk.weight", "self_attn.k_proj.weight", "attention.qkv_linear.wk.weight"},
    {"attention.wv.weight", "self_attn.v_proj.weight", "attention.qkv_linear.wv.weight"},
    {"attention.wo.weight", "self_attn.o_proj.weight", "attention.wo.weight"},
    {"feed_forward.w1.weight", "mlp.gate_proj.weight", "feed_forward.w1.weight"},
    {"feed_forward.w3.weight", "mlp.up_proj.weight", "feed_forward.w3.weight"},
    {"feed_forward.w2.weight", "mlp.down_proj.weight", "feed_forward.w2.weight"},
    {"attention_norm.weight", "input_layernorm.weight", "attention_norm.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight", "ffn_norm.weight"},
    // Of Qwen3, which is torchtitan's alone.
    {"attention.q_norm.weight", "self_attn.q_norm.weight", "attention.q_norm.weight"},
    {"attention.k_norm.weight", "self_attn.k_norm.weight", "attention.k_norm.weight"},
}};
constexpr std::array<Name, 3> other_names{{
    {"tok_embeddings.weight", "model.embed_tokens.weight", "tok_embeddings.weight"},
    {"norm.weight", "model.norm.weight", "norm.weight"},
    {"output.weight", "lm_head.weight", "lm_head.weight"},
}};

constexpr std::array<const char*, 3> fused_names{".qkv_linear.wq.weight", ".qkv_linear.wk.weight",
                                                 ".qkv_linear.wv.weight"};
constexpr const char* fused_name = ".qkv_linear.wqkv.weight";

// Extracts "layers.3." from "layers.3.attention.wq.weight", given the ending "attention.wq.weight".
std::optional<std::string> layer_of(const std::string& name, const std::string& prefix,
                                    const std::string& ending) {
  if (!name.starts_with(prefix + "layers.") || !name.ends_with("." + ending)) return std::nullopt;
  return name.substr(prefix.size(), name.size() - prefix.size() - ending.size());
}

// Translates a name to a column of the table.
std::string name_in(const char* Name::*column, const std::string& huggingface) {
  for (const Name& row : other_names)
    if (huggingface == row.huggingface) return row.*column;
  for (const Name& row : layer_names) {
    if (const auto layer = layer_of(huggingface, "model.", row.huggingface))
      return *layer + row.*column;
  }
  return huggingface;
}

}  // namespace

std::string huggingface_name_of_llama(const std::string& name) {
  for (const Name& row : other_names)
    if (name == row.meta || name == row.torchtitan) return row.huggingface;
  for (const Name& row : layer_names) {
    for (const char* theirs : {row.meta, row.torchtitan}) {
      if (const auto layer = layer_of(name, "", theirs)) return "model." + *layer + row.huggingface;
    }
  }
  return name;
}

std::string meta_llama_name(const std::string& huggingface) {
  return name_in(&Name::meta, huggingface);
}

std::string torchtitan_name(const std::string& huggingface) {
  return name_in(&Name::torchtitan, huggingface);
}

bool has_cut_columns(const std::string& meta) {
  return meta.ends_with(".wo.weight") || meta.ends_with(".w2.weight");
}

std::string torchtitan_fused_name(const std::string& own) {
  for (const char* one : fused_names) {
    if (own.ends_with(one))
      return own.substr(0, own.size() - std::string_view(one).size()) + fused_name;
  }
  return "";
}

RowChoice torchtitan_fused_rows(const std::string& own, const ModelConfig& model) {
  const std::int64_t head = model.head_dim, queries = model.num_heads / model.num_kv_heads;
  const std::int64_t group = (queries + 2) * head;
  if (own.ends_with(fused_names[0])) return {group, 0, queries * head};
  return {group, (own.ends_with(fused_names[1]) ? queries : queries + 1) * head, head};
}

const char* torchtitan_model(const HuggingFaceKind* kind, const ModelConfig& model) {
  if (model.attention_window > 0) return nullptr;
  return kind == &llama_kind ? "Llama" : kind == &qwen3_kind ? "Qwen3" : nullptr;
}

RowOrder torchtitan_row_order(const std::string& huggingface, const ModelConfig& model) {
  return model.qk_norm ? RowOrder{} : llama_row_order(huggingface, model);
}

RowOrder llama_row_order(const std::string& huggingface, const ModelConfig& model) {
  const bool rotated = huggingface.ends_with(".self_attn.q_proj.weight") ||
                       huggingface.ends_with(".self_attn.k_proj.weight");
  return rotated ? RowOrder{model.head_dim / 2, 2, 1} : RowOrder{};
}

}  // namespace trireme
