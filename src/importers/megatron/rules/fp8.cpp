// Translates Megatron-LM's fp8 flags to keys of [fp8].
#include <fmt/format.h>

#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

constexpr const char* kDelayed =
    "delayed scaling, Megatron's default, is not supported: use --fp8-recipe tensorwise or "
    "blockwise";

void fp8_recipe(Draft& draft) {
  const std::string given = draft.value("--fp8-recipe");
  if (given.empty()) return draft.complaints().add("--fp8-format", kDelayed);
  if (given == "delayed") return draft.complaints().add("--fp8-recipe", kDelayed);
  if (given != "tensorwise" && given != "blockwise") {
    return draft.complaints().add(
        "--fp8-recipe", fmt::format("'{}' is not supported: use tensorwise or blockwise", given));
  }
  draft.set_text("fp8.recipe", given, "--fp8-recipe");
  draft.set_text("fp8.format", draft.value("--fp8-format"), "--fp8-format");
  // Transformer Engine's defaults.
  draft.set("fp8.power_of_2_scales", given == "blockwise" ? "true" : "false", kDefault);
  if (given == "tensorwise") {
    draft.note("--fp8-recipe",
               "activations have one scale per sequence instead of one per micro-batch, and "
               "weights one per whole matrix, regardless of the tensor-parallel size");
  } else {
    draft.note("--fp8-recipe",
               "in weight gradients, blocks of 128 positions do not cross sequences");
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
