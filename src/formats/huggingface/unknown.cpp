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
    {"text_config", "more than the text model in it"},
    {"patcher_config", "patches of bytes"},
    {"swiglu_limit", "a clamped SwiGLU"},
    {"linear_num_value_heads", "gated delta networks"},
    {"linear_num_heads", "linear attention"},
    {"linear_attn_alpha_factor", "linear attention"},
    {"mamba_d_state", "state-space layers"},
    {"ssm_state_size", "state-space layers"},
    {"state_size", "state-space layers"},
    {"conv_L_cache", "short convolutions in place of attention"},
    {"cca_time0", "convolutions within attention"},
    {"index_topk", "an index that picks the keys which attention sees"},
    {"hc_mult", "several residual streams"},
    {"zero_expert_num", "experts that pass on what they read"},
    {"H_cycles", "layers that run several times"},
    {"num_attention_heads_per_layer", "layers with different numbers of heads"},
    {"attention_value_scale", "scaled values of attention"},
    {"layer_rope_theta", "rotary bases layer by layer"},
    {"logit_scale", "logits that are scaled, and layers whose attention and MLP read the same"},
    {"expert_selection_fn", "another choice of experts"},
    {"scale_depth", "residual branches that are scaled by the depth"},
};

}  // namespace

std::string missing_for(const HuggingFaceReader& json) {
  for (const Sign& sign : signs) {
    if (json.has(sign.key))
      return fmt::format("its {} asks for {}, not computed here; ", sign.key, sign.what);
  }
  return "";
}

}  // namespace trireme
