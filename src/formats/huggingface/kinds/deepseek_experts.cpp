// Experts as in DeepSeek-V3 (sigmoid scores, balancing bias, leading dense layers), and relatives
// with standard attention: GLM-4.5 and dots.llm1.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/huggingface/kinds/llama.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kGlm4Moe{
    .kv_heads = 8, .positions = 131072, .norm_eps = 1e-5, .reads_rope = false};
constexpr DeepSeekExperts kGlm4MoeExperts{
    .dense_layers = 1, .experts = 128, .top_k = 8, .inner = 1408};
constexpr LlamaDefaults kDots1{.kv_heads = 32};

ModelConfig read_glm4_moe(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kGlm4Moe);
  refuse_window(json);
  m.rope_percent = 0.5;
  read_rope(json, m, kGlm4Moe.rope_base, RotaryShare::given);
  m.qkv_bias = json.flag("attention_bias", false);
  m.qk_norm = json.flag("use_qk_norm", false);
  read_deepseek_experts(json, m, kGlm4MoeExperts);
  read_modules(json, m);
  return m;
}

// Without layer_types, layers from max_window_layers on have the window.
ModelConfig read_dots1(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kDots1);
  json.must_be("attention_bias", false);
  m.qk_norm = true;
  read_later_windows(json, m, 62);
  DeepSeekExperts experts{.dense_layers = 0, .normalizes = false};
  experts.experts = json.size("n_routed_experts", "num_experts");
  experts.top_k = json.size("num_experts_per_tok", "top_k");
  experts.inner = 1408;
  experts.shared = json.size("n_shared_experts", "shared_ffn_hidden_size");
  read_deepseek_experts(json, m, experts);
  return m;
}

HuggingFaceJson write_glm4_moe(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["partial_rotary_factor"] = m.rope_percent;
  json["attention_bias"] = m.qkv_bias;
  json["use_qk_norm"] = m.qk_norm;
  json["num_nextn_predict_layers"] = m.mtp_layers;
  write_deepseek_experts(json, m);
  return json;
}

HuggingFaceJson write_dots1(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["attention_bias"] = false;
  write_window(json, m);
  write_layer_types(json, m);
  // The class cannot express zero of these; without MoE layers they name no experts.
  json["n_routed_experts"] = json["num_experts_per_tok"] = json["n_shared_experts"] = 1;
  write_deepseek_experts(json, m);
  return json;
}

constexpr HuggingFaceInertKey glm4_moe_keys[] = {
    {"layer_types", "[null]"},
    {"mlp_bias"},
};

}  // namespace

void read_deepseek_experts(const HuggingFaceReader& json, ModelConfig& m,
                           const DeepSeekExperts& defaults) {
  const bool none = json.has("first_k_dense_replace") && json["first_k_dense_replace"] == 0;
  const std::int64_t dense =
      none ? 0 : json.size("first_k_dense_replace", "num_layers", defaults.dense_layers);
  json.must_be("moe_layer_freq", 1);
  json.must_be("topk_method", "noaux_tc");
  json.must_be("scoring_func", "sigmoid");
  if (dense >= m.num_layers) {
    return json.pass_over({"n_routed_experts", "num_local_experts", "num_experts_per_tok",
                           "moe_intermediate_size", "n_shared_experts", "norm_topk_prob",
                           "routed_scaling_factor", "n_group", "topk_group", "seq_aux",
                           "aux_loss_alpha"});
  }
  ExpertConfig& moe = m.moe;
  moe.first_layer = dense;
  moe.num_experts = json.size(json.either("n_routed_experts", "num_local_experts"), "num_experts",
                              defaults.experts);
  moe.top_k = json.size("num_experts_per_tok", "top_k", defaults.top_k);
  moe.ffn_hidden_size = json.size("moe_intermediate_size", "ffn_hidden_size", defaults.inner);
  moe.shared_ffn_hidden_size =
      moe.ffn_hidden_size *
      json.size("n_shared_experts", "shared_ffn_hidden_size", defaults.shared);
  moe.score = RouterScore::sigmoid;
  moe.expert_bias = true;
  moe.normalize_weights =
      !json.is_null("norm_topk_prob") && json.flag("norm_topk_prob", defaults.normalizes);
  if (moe.normalize_weights && moe.top_k == 1) {
    json.refuse("norm_topk_prob",
                "with num_experts_per_tok = 1 transformers gives every expert the weight 1, and "
                "Trireme the weight of its score: it must be false");
  }
  moe.scaling_factor = json.number("routed_scaling_factor", "scaling_factor", defaults.scaling);
  moe.num_groups = json.size("n_group", "num_groups", defaults.groups);
  moe.top_groups = json.size("topk_group", "top_groups", defaults.top_groups);
  if (moe.num_groups == moe.top_groups) moe.num_groups = moe.top_groups = 1;
  if (moe.num_groups > 1 && moe.top_k != 2 * moe.top_groups) {
    json.refuse("topk_group",
                "transformers ranks a group by its best two scores, and Trireme by its best "
                "num_experts_per_tok / topk_group, so that quotient must be 2");
  }
  moe.aux_loss = json.flag("seq_aux", true) ? BalanceScope::sequence : BalanceScope::batch;
  moe.aux_loss_coeff = json.number("aux_loss_alpha", "aux_loss_coeff", 0);
}

// Both programs that run the modules (vLLM, SGLang) give them the experts of the layer after the
// last one.
void read_modules(const HuggingFaceReader& json, ModelConfig& m) {
  const char* const key = json.either("num_nextn_predict_layers", "num_mtp_layers");
  if (!json.has(key) || json[key] == 0) return;
  m.mtp_layers = json.size(key, "mtp_layers");
  if (!m.moe.in_layer(m.num_layers - 1)) {
    json.refuse(key,
                "its modules have experts, and in Trireme they have the MLP of the last layer, "
                "which is dense: it must be 0");
  }
}

void write_deepseek_experts(HuggingFaceJson& json, const ModelConfig& m) {
  const ExpertConfig& moe = m.moe;
  std::int64_t dense = 0;
  while (dense < m.num_layers && !moe.in_layer(dense)) ++dense;
  json["first_k_dense_replace"] = dense;
  if (moe.num_experts == 0) return;
  json["n_routed_experts"] = moe.num_experts;
  json["num_experts_per_tok"] = moe.top_k;
  json["moe_intermediate_size"] = moe.ffn_hidden_size;
  json["n_shared_experts"] =
      std::max<std::int64_t>(1, moe.shared_ffn_hidden_size / moe.ffn_hidden_size);
  json["scoring_func"] = "sigmoid";
  json["topk_method"] = "noaux_tc";
  json["n_group"] = moe.num_groups;
  // A group's score is the sum of its best two.
  json["topk_group"] =
      moe.num_groups > moe.top_groups ? std::max<std::int64_t>(1, moe.top_k / 2) : moe.top_groups;
  json["norm_topk_prob"] = moe.normalize_weights && moe.top_k > 1;  // ours keeps a single score
  json["routed_scaling_factor"] = moe.scaling_factor;
  json["aux_loss_alpha"] = moe.aux_loss_coeff;
  json["seq_aux"] = moe.aux_loss == BalanceScope::sequence;
}

const HuggingFaceKind glm4_moe_kind{"Glm4MoeForCausalLM",
                                    "glm4_moe",
                                    &llama_names,
                                    read_glm4_moe,
                                    write_glm4_moe,
                                    glm4_moe_keys,
                                    {.shared = "shared_experts."}};
const HuggingFaceKind dots1_kind{
    "Dots1ForCausalLM",           "dots1", &llama_names, read_dots1, write_dots1, qwen3_keys,
    {.shared = "shared_experts."}};

}  // namespace trireme
