// Translates flags of latent attention, with Megatron's defaults.
#include <fmt/format.h>

#include "importers/megatron/draft.h"

namespace trireme::megatron {
void translate_latent(Draft& draft) {
  if (!draft.has(kLatent)) {
    for (const char* flag : {"--kv-lora-rank", "--q-lora-rank", "--qk-head-dim",
                             "--qk-pos-emb-head-dim", "--v-head-dim", "--rope-type",
                             "--rotary-scaling-factor", "--mscale", "--mscale-all-dim"}) {
      const bool stretches = std::string(flag).ends_with("scaling-factor") ||
                             std::string(flag).starts_with("--mscale");
      if (draft.has(flag) && !(stretches && is_yarn(draft)))
        draft.note(flag, fmt::format("has an effect only with {}", kLatent));
    }
    return;
  }
  if (!draft.has("--qk-layernorm")) {
    draft.complaints().add(
        kLatent,
        "in Trireme multi-head latent attention always has its two small norms: add "
        "--qk-layernorm");
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
  for (const char* flag : {"--kv-channels", "--use-rope-scaling", "--rope-scaling-factor",
                           "--rotary-seq-len-interpolation-factor", "--add-qkv-bias"}) {
    if (draft.has(flag))
      draft.note(flag, fmt::format("no effect with {}, as in Megatron", kLatent));
  }
}

}  // namespace trireme::megatron
