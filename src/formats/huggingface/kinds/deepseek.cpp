// config.json of DeepSeek-V3 and of Kimi K2, which uses the same class. The router bias update of
// the original training, which transformers does not implement, is not read.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/huggingface/kinds/llama.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

// Epsilon of the latent norms, which the class hardcodes regardless of rms_norm_eps.
constexpr double kLatentEps = 1e-6;
constexpr DeepSeekExperts kDeepSeekExperts{.dense_layers = 3,
                                           .experts = 256,
                                           .top_k = 8,
                                           .inner = 2048,
                                           .scaling = 2.5,
                                           .groups = 8,
                                           .top_groups = 4};
constexpr const char* kDeepSeekClass = "DeepseekV3ForCausalLM";
constexpr LlamaDefaults kDeepSeek{.kv_heads = 128, .positions = 4096, .reads_rope = false};

void read_latent_attention(const HuggingFaceReader& json, ModelConfig& m) {
  json.must_be("attention_bias", false);
  json.must_be("rope_interleave", true);
  if (json.has("num_key_value_heads")) json.must_be("num_key_value_heads", m.num_heads);
  m.num_kv_heads = m.num_heads;
  m.kv_lora_rank = json.size("kv_lora_rank", "kv_lora_rank", 512);
  m.q_lora_rank = json.is_null("q_lora_rank") ? 0 : json.size("q_lora_rank", "q_lora_rank", 1536);
  m.qk_nope_head_dim = json.size("qk_nope_head_dim", "qk_nope_head_dim", 128);
  m.qk_rope_head_dim = json.size("qk_rope_head_dim", "qk_rope_head_dim", 64);
  m.v_head_dim = json.size("v_head_dim", "v_head_dim", 128);
  // The file's head_dim is the RoPE part of the head.
  json.must_be("head_dim", m.qk_rope_head_dim);
  m.head_dim = m.qk_nope_head_dim + m.qk_rope_head_dim;
  json.must_be("qk_head_dim", m.head_dim);
  if (m.norm_eps != kLatentEps) m.latent_norm_eps = kLatentEps;
}

ModelConfig read_deepseek(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kDeepSeek);
  refuse_window(json);
  read_latent_attention(json, m);
  read_rope(json, m, kDeepSeek.rope_base);
  read_deepseek_experts(json, m, kDeepSeekExperts);
  read_modules(json, m);
  return m;
}

// Its files come with a copy of DeepSeek-V3's code, which may have other defaults for absent keys.
ModelConfig read_kimi(const HuggingFaceReader& json) {
  json.must_be("architectures", HuggingFaceReader::Json::array({kDeepSeekClass}));
  for (const char* key :
       {"architectures", "max_position_embeddings", "rms_norm_eps", "rope_theta", "q_lora_rank",
        "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
        "first_k_dense_replace", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size",
        "n_shared_experts", "norm_topk_prob", "routed_scaling_factor", "n_group", "topk_group"})
    if (!json.json().contains(key)) fail_input("'{}' lacks '{}'", json.name(), key);
  return read_deepseek(json);
}

// Writes the two values from which transformers computes the factors on RoPE tables and scores.
void add_mscales(HuggingFaceJson& rope, const ModelConfig& m) {
  if (m.attention_scale == 0) return;
  const double steps = 0.1 * std::log(m.rope_scaling_factor);
  const double all = std::sqrt(m.attention_scale * std::sqrt(static_cast<double>(m.head_dim)));
  const double amplitude = m.rope_attention_factor > 0 ? m.rope_attention_factor : steps + 1;
  // Rounded so that a value that was read is written back unchanged; 0 counts as absent in
  // transformers and is the minimum.
  const auto rounded = [](double value) { return std::round(std::max(0.0, value) * 1e12) / 1e12; };
  rope["mscale_all_dim"] = rounded((all - 1) / steps);
  rope["mscale"] = rounded((amplitude * all - 1) / steps);
  rope.erase("attention_factor");
}

HuggingFaceJson write_deepseek(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["num_key_value_heads"] = m.num_heads;
  json["head_dim"] = m.qk_rope_head_dim;
  if (m.rope_scaling == RopeScaling::yarn) add_mscales(json["rope_scaling"], m);
  json["rope_interleave"] = true;
  json["attention_bias"] = false;
  json["kv_lora_rank"] = m.kv_lora_rank;
  json["q_lora_rank"] =
      m.q_lora_rank > 0 ? HuggingFaceJson(m.q_lora_rank) : HuggingFaceJson(nullptr);
  json["qk_nope_head_dim"] = m.qk_nope_head_dim;
  json["qk_rope_head_dim"] = m.qk_rope_head_dim;
  json["v_head_dim"] = m.v_head_dim;
  write_deepseek_experts(json, m);
  json["moe_layer_freq"] = 1;
  json["num_nextn_predict_layers"] = m.mtp_layers;
  return json;
}

constexpr HuggingFaceInertKey deepseek_keys[] = {
    {"ep_size"},
    {"layer_types", "[null]"},
    {"mlp_bias"},
};

}  // namespace

const HuggingFaceKind deepseek_v3_kind{kDeepSeekClass,
                                       "deepseek_v3",
                                       &llama_names,
                                       read_deepseek,
                                       write_deepseek,
                                       deepseek_keys,
                                       {.shared = "shared_experts."}};
const HuggingFaceKind kimi_k2_kind{kDeepSeekClass,
                                   "kimi_k2",
                                   &llama_names,
                                   read_kimi,
                                   write_deepseek,
                                   deepseek_keys,
                                   {.shared = "shared_experts."}};

}  // namespace trireme
