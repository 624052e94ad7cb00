// Translates maximal-update parametrization (--use-mup).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/fields.h"
#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

constexpr const char* kMup = "--use-mup";

// Returns the factor of attention scores. Megatron's latent attention keeps its usual factor.
double attention_scale(Draft& draft) {
  const std::int64_t heads = std::max<std::int64_t>(1, draft.integer("--num-attention-heads", 1));
  const auto root = [](double x) { return std::sqrt(x); };
  if (draft.has(kLatent)) {
    const std::int64_t width =
        draft.integer("--qk-head-dim", 128) + draft.integer("--qk-pos-emb-head-dim", 64);
    return 1 / root(static_cast<double>(width));
  }
  const auto width = static_cast<double>(
      draft.integer("--kv-channels", draft.integer("--hidden-size", 0) / heads));
  return root(draft.number("--mup-base-head-dim", 1)) /
         std::pow(width, draft.number("--mup-attn-scale-power", 1));
}

void check_numbers(Draft& draft) {
  for (const char* flag : {"--mup-base-hidden-size", "--mup-embedding-mult", "--mup-output-mult",
                           "--mup-base-head-dim"}) {
    if (draft.has(flag) && draft.number(flag, 0) <= 0)
      draft.complaints().add(flag, fmt::format("{} is not above 0", draft.value(flag)));
  }
  const char* const first = "--lr-warmup-init";
  if (draft.number(first, 0) != 0)
    draft.complaints().add(
        first,
        fmt::format("with {}, Megatron scales all learning rates by the width except this one, "
                    "but Trireme scales all of them: remove it",
                    kMup));
}

}  // namespace

void translate_width(Draft& draft) {
  if (!draft.has(kMup)) return;
  check_numbers(draft);
  const std::string base = "--mup-base-hidden-size", embedding = "--mup-embedding-mult",
                    output = "--mup-output-mult";
  draft.set("model.mup_base_hidden_size", draft.value(draft.has(base) ? base : "--hidden-size"),
            draft.has(base) ? base : kMup);
  if (draft.has(embedding))
    draft.set("model.embedding_multiplier", draft.value(embedding), embedding);
  // Where it is 1, Megatron takes the inverse of the width, as model.mup_base_hidden_size does.
  if (draft.number(output, 1) != 1)
    draft.set("model.logit_multiplier", draft.value(output), output);
  else if (draft.has(output))
    draft.note(output, "1 stands for the inverse of the width, as in Megatron");
  draft.set("model.attention_scale", toml_number(attention_scale(draft)),
            fmt::format("{} and its scale of attention", kMup));
  if (!draft.has(kLatent)) return;
  for (const char* flag : {"--mup-base-head-dim", "--mup-attn-scale-power"})
    if (draft.has(flag))
      draft.note(flag, fmt::format("no effect with {}, as in Megatron", kLatent));
}

}  // namespace trireme::megatron
