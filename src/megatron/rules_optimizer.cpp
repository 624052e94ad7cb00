// Keys of Muon and Lion, whose defaults in Megatron are not ours.
#include <fmt/format.h>

#include <vector>

#include "megatron/draft.h"

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

void muon(Draft& draft) {
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
  const std::string mode = draft.value("--muon-tp-mode");
  if (draft.integer("--tensor-model-parallel-size", 1) > 1 && mode != "duplicated") {
    draft.note("--muon-tp-mode",
               "matrices that tensor parallelism splits are taken whole, as with duplicated");
  }
}

void lion(Draft& draft) {
  set_each(draft, {{"--lion-beta1", "optimizer.lion_beta1", "0.95"},
                   {"--lion-beta2", "optimizer.lion_beta2", "0.98"}});
}

}  // namespace

void translate_optimizer(Draft& draft) {
  const std::string name = draft.value("--optimizer");
  if (name == "muon" || name == "dist_muon") muon(draft);
  if (name == "lion") lion(draft);
  for (const char* flag :
       {"--muon-momentum", "--muon-num-ns-steps", "--muon-extra-scale-factor", "--muon-scale-mode",
        "--muon-coefficient-type", "--muon-nesterov", "--muon-use-nesterov"}) {
    if (draft.has(flag) && name != "muon" && name != "dist_muon")
      draft.note(flag, "no effect without --optimizer muon, as in Megatron");
  }
}

}  // namespace trireme::megatron
