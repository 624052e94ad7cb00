// Translates keys of Muon and Lion, whose defaults differ in Megatron.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

struct OptimizerFlag {
  const char* flag;
  const char* key;
  const char* absent;  // Megatron's default, as TOML
};

constexpr const char* default_of_megatron = "Megatron's default";

void set_each(Draft& draft, const std::vector<OptimizerFlag>& flags) {
  for (const auto& [flag, key, absent] : flags) {
    if (draft.has(flag)) {
      draft.set(key, draft.value(flag), flag);
    } else {
      draft.set(key, absent, default_of_megatron);
    }
  }
}

void set_choice(Draft& draft, const char* flag, const char* key, const char* absent) {
  const std::string given = draft.value(flag);
  if (given.empty()) return draft.set_text(key, absent, default_of_megatron);
  for (const auto& [theirs, ours] : choices(*find_flag(flag)))
    if (theirs == given) draft.set_text(key, ours, flag);
}

// Megatron applies Muon to all 2-D weights except embeddings and output layers, as stored.
void note_other_matrices(Draft& draft) {
  std::vector<std::string> others;
  if (draft.has("--swiglu") || draft.has("--glu-activation"))
    others.emplace_back(
        "Trireme treats gate and up projection of SwiGLU as separate matrices, Megatron as one");
  if (draft.integer("--num-experts", 1) > 1)
    others.emplace_back(
        "Trireme uses AdamW for routers and gates of shared experts, Megatron uses Muon");
  const std::string position = draft.value("--position-embedding-type");
  if ((position.empty() || position == "learned_absolute") &&
      !draft.has("--use-rotary-position-embeddings") && !draft.has("--no-position-embedding"))
    others.emplace_back("Trireme uses AdamW for learned position embeddings, Megatron uses Muon");
  if (!others.empty()) draft.note("--optimizer", fmt::format("{}", fmt::join(others, "; ")));
}

void muon(Draft& draft) {
  note_other_matrices(draft);
  set_each(draft, {{"--muon-momentum", "optimizer.muon_momentum", "0.9"},
                   {"--muon-num-ns-steps", "optimizer.muon_steps", "5"},
                   {"--muon-extra-scale-factor", "optimizer.muon_scale_factor", "1.0"}});
  set_choice(draft, "--muon-scale-mode", "optimizer.muon_scale", "spectral");
  set_choice(draft, "--muon-coefficient-type", "optimizer.muon_coefficients", "quintic");
  const char* nesterov = draft.has("--muon-nesterov")       ? "--muon-nesterov"
                         : draft.has("--muon-use-nesterov") ? "--muon-use-nesterov"
                                                            : nullptr;
  draft.set("optimizer.muon_nesterov", nesterov ? "true" : "false",
            nesterov ? nesterov : default_of_megatron);
  const std::string flag = "--muon-tp-mode", mode = draft.value(flag);
  if (draft.integer("--tensor-model-parallel-size", 1) == 1) return;
  if (mode.empty() || mode == "blockwise") {
    draft.complaints().add(
        flag,
        "blockwise, the default of some versions of Megatron, orthogonalizes each rank's part of a "
        "matrix, but Trireme uses unsharded matrices: use --muon-tp-mode duplicated");
  }
}

void lion(Draft& draft) {
  set_each(draft, {{"--lion-beta1", "optimizer.lion_beta1", "0.95"},
                   {"--lion-beta2", "optimizer.lion_beta2", "0.98"}});
}

void decay_of_head_norms(Draft& draft) {
  const char* const flag = draft.has("--apply-wd-to-qk-layernorm") ? "--apply-wd-to-qk-layernorm"
                           : draft.has("--no-weight-decay-cond-type")
                               ? "--no-weight-decay-cond-type"
                               : nullptr;
  if (!flag) return;
  if (draft.has(kLatent)) {
    return draft.complaints().add(
        flag,
        fmt::format("with {}, Megatron decides by their names whether the small norms decay, and "
                    "Trireme never decays them: remove it",
                    kLatent));
  }
  if (!draft.has("--qk-layernorm"))
    return draft.note(flag, "no effect without --qk-layernorm, as in Megatron");
  draft.set("optimizer.decay_qk_norms", "true", flag);
}

void qk_clip(Draft& draft) {
  const std::string flag = "--qk-clip", threshold = "--qk-clip-threshold",
                    alpha = "--qk-clip-alpha";
  if (!draft.has(flag)) return;
  if (draft.has("--qk-layernorm") && !draft.has(kLatent)) {
    draft.complaints().add(flag,
                           "--qk-layernorm undoes what it scales, and it is refused here: leave "
                           "one of them out");
  }
  if (draft.has(threshold) && draft.number(threshold, 0) <= 0)
    draft.complaints().add(threshold, fmt::format("{} is not above 0", draft.value(threshold)));
  draft.set("optimizer.qk_clip_threshold", draft.has(threshold) ? draft.value(threshold) : "100.0",
            draft.has(threshold) ? threshold : flag);
  if (draft.has(alpha)) draft.set("optimizer.qk_clip_alpha", draft.value(alpha), alpha);
}

// Megatron's adam is AdamW unless weight decay is part of the gradient.
void coupled_decay(Draft& draft) {
  const std::string flag = "--no-decoupled-weight-decay", name = draft.value("--optimizer");
  if (!draft.has(flag)) return;
  if (!name.empty() && name != "adam")
    return draft.note(flag, fmt::format("has an effect only with --optimizer adam, not {}", name));
  draft.set_text("optimizer.name", "adam", flag);
}

}  // namespace

void translate_optimizer(Draft& draft) {
  coupled_decay(draft);
  decay_of_head_norms(draft);
  qk_clip(draft);
  const std::string name = draft.value("--optimizer");
  if (name == "muon" || name == "dist_muon") muon(draft);
  if (name == "lion") lion(draft);
}

}  // namespace trireme::megatron
