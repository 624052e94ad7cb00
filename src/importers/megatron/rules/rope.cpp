// Translates the scaling of rotary frequencies to longer sequences.
#include <fmt/format.h>

#include <cmath>

#include "config/fields.h"
#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

constexpr const char *kStretch = "--rotary-scaling-factor", *kType = "--position-embedding-type";

// RoPE scaling for longer sequences; `flag` selects the kind, `factor` the amount.
void stretch_rope(Draft& draft, const char* how, const std::string& flag,
                  const std::string& factor) {
  const bool given = draft.has(factor);
  if (given && draft.number(factor, 0) <= 1) {
    return draft.complaints().add(
        factor,
        fmt::format("{} is not above 1, but frequencies are divided by it", draft.value(factor)));
  }
  draft.set_text("model.rope_scaling", how, flag);
  draft.set("model.rope_scaling_factor", given ? draft.value(factor) : "8.0",
            given ? factor : kDefault);
}

// YaRN's logarithmic growth of scales.
double yarn_growth(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

// The factor by which positions are stretched; 0, with a complaint, if it is below 1.
double yarn_factor(Draft& draft) {
  const double factor = draft.number(kStretch, 1);
  if (factor >= 1) return factor;
  draft.complaints().add(kStretch, fmt::format("{} is below 1, but positions can only be stretched",
                                               draft.value(kStretch)));
  return 0;
}

void set_yarn(Draft& draft, double factor, const std::string& origin) {
  const double tables = yarn_growth(factor, draft.number("--mscale", 1)) /
                        yarn_growth(factor, draft.number("--mscale-all-dim", 0));
  draft.set_text("model.rope_scaling", "yarn", origin);
  draft.set("model.rope_scaling_factor", draft.value(kStretch), kStretch);
  draft.set("model.rope_attention_factor", toml_number(tables), "--mscale and --mscale-all-dim");
}

// Sets YaRN from the flags of ordinary attention, which latent attention does not use.
void yarn(Draft& draft) {
  if (draft.number("--rotary-percent", 1) != 1) {
    return draft.complaints().add(
        "--rotary-percent",
        "Megatron's yarn scales as if all dimensions of a head were rotary: remove it");
  }
  const double factor = yarn_factor(draft);
  if (factor <= 1) return;
  set_yarn(draft, factor, kType);
  struct Number {
    const char *flag, *key, *absent;
  };
  for (const auto& [flag, key, absent] :
       {Number{"--yarn-original-max-position-embeddings", "model.rope_original_length", "4096"},
        Number{"--yarn-beta-fast", "model.rope_beta_fast", "32.0"},
        Number{"--yarn-beta-slow", "model.rope_beta_slow", "1.0"}}) {
    draft.set(key, draft.has(flag) ? draft.value(flag) : absent, draft.has(flag) ? flag : kDefault);
  }
  const char *whole = "--yarn-correction-range-round-to-int",
             *parts = "--no-yarn-correction-range-round-to-int";
  draft.contradicts(parts, whole, "they set opposite rounding of the bounds");
  draft.set("model.rope_truncate", draft.has(parts) ? "false" : "true",
            draft.has(parts)   ? parts
            : draft.has(whole) ? whole
                               : kDefault);
}

}  // namespace

bool is_yarn(const Draft& draft) {
  return draft.value(kType) == "yarn" && !draft.has("--use-rotary-position-embeddings");
}

void scale_rope(Draft& draft, const std::string& positions) {
  const std::string linear = "--rotary-seq-len-interpolation-factor";
  const std::string llama3 = "--use-rope-scaling", factor = "--rope-scaling-factor";
  if (draft.has(factor) && !draft.has(llama3))
    draft.note(factor, fmt::format("no effect without {}, as in Megatron", llama3));
  if (draft.integer(linear, 0) == 1) draft.line().flags.erase(linear);
  draft.contradicts(llama3, linear, "only one scaling of frequencies is possible");
  for (const std::string& flag : {linear, llama3}) {
    if (is_yarn(draft))
      draft.contradicts(kType, flag, "only one scaling of frequencies is possible");
    if (draft.has(flag) && positions != "rope")
      draft.note(flag, "no effect without --position-embedding-type rope");
  }
  if (positions != "rope") return;
  if (is_yarn(draft)) return yarn(draft);
  if (draft.has(linear)) stretch_rope(draft, "linear", linear, linear);
  if (!draft.has(llama3)) return;
  stretch_rope(draft, "llama3", llama3, factor);
  draft.set("model.rope_low_freq_factor", "1.0", llama3);
  draft.set("model.rope_high_freq_factor", "4.0", llama3);
  draft.set("model.rope_original_length", "8192", llama3);
}

void scale_latent_rope(Draft& draft, std::int64_t head_dim) {
  const double factor = yarn_factor(draft);
  if (factor == 0) return;
  if (factor > 1 && draft.value("--rope-type") != "rope") {
    set_yarn(draft, factor, draft.has("--rope-type") ? "--rope-type" : kLatent);
    draft.set("model.rope_original_length", "4096", kDefault);
  }
  const double all = yarn_growth(factor, draft.number("--mscale-all-dim", 0));
  if (all == 1) return;
  draft.set("model.attention_scale",
            toml_number(all * all / std::sqrt(static_cast<double>(head_dim))),
            fmt::format("--mscale-all-dim and {}", kStretch));
}

}  // namespace trireme::megatron
