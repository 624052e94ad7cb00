// Detects unsupported features of an unknown class from the keys of its config.json.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "formats/huggingface/kind.h"

namespace trireme {
namespace {

struct Sign {
  const char *key, *what;
};

// The first match is reported.
constexpr Sign signs[] = {
    {"vision_config", "images"},
    {"audio_config", "sound"},
    {"image_token_id", "images"},
    {"text_config", "more than a text model"},
    {"patcher_config", "patches of bytes"},
    {"swiglu_limit", "a clamped SwiGLU"},
    {"linear_num_value_heads", "gated delta networks other than those of Qwen3-Next"},
    {"linear_num_heads", "linear attention"},
    {"linear_attn_alpha_factor", "linear attention"},
    {"ssm_in_multiplier", "attention and Mamba-2 side by side in one layer"},
    {"mamba_d_state", "a state-space model other than Granite 4"},
    {"state_size", "layers that consist of a state-space mixer alone"},
    {"conv_L_cache", "short convolutions in place of attention"},
    {"cca_time0", "convolutions within attention"},
    {"index_topk", "an indexer that selects the keys for attention"},
    {"hc_mult", "several residual streams"},
    {"zero_expert_num", "experts that return their input"},
    {"H_cycles", "layers that are applied several times"},
    {"num_attention_heads_per_layer", "layers with different numbers of heads"},
    {"attention_value_scale", "scaled values of attention"},
    {"layer_rope_theta", "rotary bases layer by layer"},
    {"logit_scale", "scaled logits, and layers whose attention and MLP read the same input"},
    {"expert_selection_fn", "a different selection of experts"},
    {"scale_depth", "residual branches scaled by depth"},
};

}  // namespace

std::string missing_for(const HuggingFaceReader& json) {
  for (const Sign& sign : signs) {
    if (json.has(sign.key))
      return fmt::format("its {} requires {}, which is not supported; ", sign.key, sign.what);
  }
  return "";
}

}  // namespace trireme
