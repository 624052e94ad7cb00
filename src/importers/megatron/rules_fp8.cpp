// Translates Megatron-LM's fp8 flags to keys of [fp8].
#include <fmt/format.h>

#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

constexpr const char* kDelayed =
    "scales come from the numbers of past steps (delayed scaling, Megatron's default), which is "
    "not available: --fp8-recipe tensorwise and blockwise are";

void fp8_recipe(Draft& draft) {
  const std::string given = draft.value("--fp8-recipe");
  if (given.empty()) return draft.complaints().add("--fp8-format", kDelayed);
  if (given == "delayed") return draft.complaints().add("--fp8-recipe", kDelayed);
  if (given != "tensorwise" && given != "blockwise") {
    return draft.complaints().add(
        "--fp8-recipe", fmt::format("'{}' is not available: tensorwise and blockwise are", given));
  }
  draft.set_text("fp8.recipe", given, "--fp8-recipe");
  draft.set_text("fp8.format", draft.value("--fp8-format"), "--fp8-format");
  // Transformer Engine's defaults.
  draft.set("fp8.power_of_2_scales", given == "blockwise" ? "true" : "false", kDefault);
  if (given == "tensorwise") {
    draft.note("--fp8-recipe",
               "activations have a scale for each sequence, and not one for the micro-batch; "
               "weights one for the whole matrix, whatever the tensor-parallel size");
  } else {
    draft.note("--fp8-recipe",
               "blocks of 128 positions, in gradients of weights, end with each sequence");
  }
}

void layers_in_bf16(Draft& draft) {
  const char* const flag = "--first-last-layers-bf16";
  if (!draft.has(flag)) return;
  for (const auto& [count, key] :
       {std::pair{"--num-layers-at-start-in-bf16", "fp8.first_layers_bf16"},
        {"--num-layers-at-end-in-bf16", "fp8.last_layers_bf16"}}) {
    draft.set(key, fmt::format("{}", draft.integer(count, 1)), draft.has(count) ? count : flag);
  }
}

}  // namespace

void translate_fp8(Draft& draft) {
  if (draft.has("--fp8-format")) {
    fp8_recipe(draft);
    return layers_in_bf16(draft);
  }
  for (const char* flag : {"--fp8-recipe", "--first-last-layers-bf16",
                           "--num-layers-at-start-in-bf16", "--num-layers-at-end-in-bf16"}) {
    if (draft.has(flag)) draft.note(flag, "no effect without --fp8-format, as in Megatron");
  }
}

}  // namespace trireme::megatron
