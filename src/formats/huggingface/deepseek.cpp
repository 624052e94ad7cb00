// config.json of DeepSeek-V3. What its release trains with and transformers does not (the bias of
// routers, further layers that predict more than one token) is not read.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/huggingface/llama.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

// Of the norms within latent attention, which the class has whatever rms_norm_eps says.
constexpr double kLatentEps = 1e-6;
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
  // The file's own head_dim is the part that positions turn.
  json.must_be("head_dim", m.qk_rope_head_dim);
  m.head_dim = m.qk_nope_head_dim + m.qk_rope_head_dim;
  json.must_be("qk_head_dim", m.head_dim);
  if (m.norm_eps != kLatentEps) m.latent_norm_eps = kLatentEps;
}

void read_deepseek_experts(const HuggingFaceReader& json, ModelConfig& m) {
  const bool none = json.has("first_k_dense_replace") && json["first_k_dense_replace"] == 0;
  const std::int64_t dense = none ? 0 : json.size("first_k_dense_replace", "num_layers", 3);
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
  moe.num_experts =
      json.size(json.either("n_routed_experts", "num_local_experts"), "num_experts", 256);
  moe.top_k = json.size("num_experts_per_tok", "top_k", 8);
  moe.ffn_hidden_size = json.size("moe_intermediate_size", "ffn_hidden_size", 2048);
  moe.shared_ffn_hidden_size =
      moe.ffn_hidden_size * json.size("n_shared_experts", "shared_ffn_hidden_size", 1);
  moe.score = RouterScore::sigmoid;
  moe.expert_bias = true;
  moe.normalize_weights = !json.is_null("norm_topk_prob") && json.flag("norm_topk_prob", true);
  if (moe.normalize_weights && moe.top_k == 1) {
    json.refuse("norm_topk_prob",
                "with num_experts_per_tok = 1 every expert has the weight 1 there, and that of its "
                "score here: it must be false");
  }
  moe.scaling_factor = json.number("routed_scaling_factor", "scaling_factor", 2.5);
  moe.num_groups = json.size("n_group", "num_groups", 8);
  moe.top_groups = json.size("topk_group", "top_groups", 4);
  if (moe.num_groups == moe.top_groups) moe.num_groups = moe.top_groups = 1;
  if (moe.num_groups > 1 && moe.top_k != 2 * moe.top_groups) {
    json.refuse("topk_group",
                "a group counts with its best two scores there, and with its best "
                "num_experts_per_tok / topk_group here, so that these must be two");
  }
  moe.aux_loss = json.flag("seq_aux", true) ? BalanceScope::sequence : BalanceScope::batch;
  moe.aux_loss_coeff = json.number("aux_loss_alpha", "aux_loss_coeff", 0);
}

ModelConfig read_deepseek(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kDeepSeek);
  refuse_window(json);
  read_latent_attention(json, m);
  read_rope(json, m, kDeepSeek.rope_base);
  read_deepseek_experts(json, m);
  return m;
}

// The two from which transformers computes what multiplies rotary tables and scores.
void add_mscales(HuggingFaceJson& rope, const ModelConfig& m) {
  if (m.attention_scale == 0) return;
  const double steps = 0.1 * std::log(m.rope_scaling_factor);
  const double all = std::sqrt(m.attention_scale * std::sqrt(static_cast<double>(m.head_dim)));
  const double amplitude = m.rope_attention_factor > 0 ? m.rope_attention_factor : steps + 1;
  // Rounded so far that a number which was read comes back; 0 counts as absent there, and is the
  // smallest.
  const auto rounded = [](double value) { return std::round(std::max(0.0, value) * 1e12) / 1e12; };
  rope["mscale_all_dim"] = rounded((all - 1) / steps);
  rope["mscale"] = rounded((amplitude * all - 1) / steps);
  rope.erase("attention_factor");
}

HuggingFaceJson write_deepseek(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  const ExpertConfig& moe = m.moe;
  const bool sparse = moe.num_experts > 0;
  std::int64_t dense = 0;
  while (dense < m.num_layers && !moe.in_layer(dense)) ++dense;
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
  json["first_k_dense_replace"] = dense;
  json["moe_layer_freq"] = 1;
  json["num_nextn_predict_layers"] = 0;
  if (!sparse) return json;
  json["n_routed_experts"] = moe.num_experts;
  json["num_experts_per_tok"] = moe.top_k;
  json["moe_intermediate_size"] = moe.ffn_hidden_size;
  json["n_shared_experts"] =
      std::max<std::int64_t>(1, moe.shared_ffn_hidden_size / moe.ffn_hidden_size);
  json["scoring_func"] = "sigmoid";
  json["topk_method"] = "noaux_tc";
  json["n_group"] = moe.num_groups;
  // A group counts with its best two scores.
  json["topk_group"] =
      moe.num_groups > moe.top_groups ? std::max<std::int64_t>(1, moe.top_k / 2) : moe.top_groups;
  json["norm_topk_prob"] = moe.normalize_weights && moe.top_k > 1;  // a single score stays here
  json["routed_scaling_factor"] = moe.scaling_factor;
  json["aux_loss_alpha"] = moe.aux_loss_coeff;
  json["seq_aux"] = moe.aux_loss == BalanceScope::sequence;
  return json;
}

constexpr HuggingFaceInertKey deepseek_keys[] = {
    {"ep_size"},
    {"layer_types", "[null]"},
    {"mlp_bias"},
    // Of layers after the last one, which predict more than one token.
    {"num_mtp_layers"},
    {"num_nextn_predict_layers"},
};

}  // namespace

const HuggingFaceKind deepseek_v3_kind{"DeepseekV3ForCausalLM",
                                       "deepseek_v3",
                                       &llama_names,
                                       read_deepseek,
                                       write_deepseek,
                                       deepseek_keys,
                                       {.shared = "shared_experts."}};

}  // namespace trireme
