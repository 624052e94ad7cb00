// Translates flags of latent attention, with Megatron's defaults.
#include <fmt/format.h>

#include <cmath>

#include "config/fields.h"
#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

// YaRN's logarithmic growth of scales.
double yarn_growth(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

// Sets the factors on RoPE tables and scores.
void scale_latent_rope(Draft& draft, std::int64_t head_dim) {
  const std::string flag = "--rotary-scaling-factor";
  const double factor = draft.number(flag, 1);
  if (factor < 1) {
    return draft.complaints().add(
        flag, fmt::format("{} is below 1, and positions are only stretched", draft.value(flag)));
  }
  const double all = yarn_growth(factor, draft.number("--mscale-all-dim", 0));
  const bool yarn = draft.value("--rope-type") != "rope";
  if (factor > 1 && yarn) {
    const double tables = yarn_growth(factor, draft.number("--mscale", 1)) / all;
    draft.set_text("model.rope_scaling", "yarn",
                   draft.has("--rope-type") ? "--rope-type" : kLatent);
    draft.set("model.rope_scaling_factor", draft.value(flag), flag);
    draft.set("model.rope_original_length", "4096", kDefault);
    draft.set("model.rope_attention_factor", toml_number(tables), "--mscale and --mscale-all-dim");
  }
  if (all == 1) return;
  draft.set("model.attention_scale",
            toml_number(all * all / std::sqrt(static_cast<double>(head_dim))),
            fmt::format("--mscale-all-dim and {}", flag));
}

}  // namespace

void translate_latent(Draft& draft) {
  if (!draft.has(kLatent)) {
    for (const char* flag : {"--kv-lora-rank", "--q-lora-rank", "--qk-head-dim",
                             "--qk-pos-emb-head-dim", "--v-head-dim", "--rope-type",
                             "--rotary-scaling-factor", "--mscale", "--mscale-all-dim"}) {
      if (draft.has(flag)) draft.note(flag, fmt::format("has an effect only with {}", kLatent));
    }
    return;
  }
  if (!draft.has("--qk-layernorm")) {
    draft.complaints().add(
        kLatent,
        "latent attention has its two small norms here: add --qk-layernorm, which has them");
  }
  std::int64_t head_dim = 0;
  const auto width = [&](const char* flag, const char* key, std::int64_t absent) {
    const std::int64_t value = draft.integer(flag, absent);
    draft.set(key, fmt::format("{}", value), draft.has(flag) ? flag : kDefault);
    return value;
  };
  width("--kv-lora-rank", "model.kv_lora_rank", 32);
  width("--q-lora-rank", "model.q_lora_rank", 0);
  head_dim += width("--qk-head-dim", "model.qk_nope_head_dim", 128);
  head_dim += width("--qk-pos-emb-head-dim", "model.qk_rope_head_dim", 64);
  width("--v-head-dim", "model.v_head_dim", 128);
  scale_latent_rope(draft, head_dim);
  for (const char* flag : {"--use-rope-scaling", "--rope-scaling-factor",
                           "--rotary-seq-len-interpolation-factor", "--add-qkv-bias"}) {
    if (draft.has(flag))
      draft.note(flag, fmt::format("no effect with {}, as in Megatron", kLatent));
  }
}

}  // namespace trireme::megatron
