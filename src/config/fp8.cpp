// Checks of FP8 GEMM settings.
#include "config/fp8.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::int64_t fp8_block = 128;
constexpr std::string_view kRanks = "parallel.tp", kLeaves = "parallel.exact_leaves";

// Without a recipe, the other keys of the section would silently have no effect.
void check_unused_fp8(const Fp8Config& fp8) {
  const Fp8Config none;
  for (const auto& [set, key] :
       {std::pair{fp8.format != none.format, "format"},
        {fp8.encoding != none.encoding, "encoding"},
        {fp8.power_of_2_scales != none.power_of_2_scales, "power_of_2_scales"},
        {fp8.first_layers_bf16 > 0, "first_layers_bf16"},
        {fp8.last_layers_bf16 > 0, "last_layers_bf16"}}) {
    if (!set) continue;
    fail_input(
        "fp8.{} has no effect without fp8.recipe: set recipe to \"tensorwise\" or \"blockwise\", "
        "or remove {}",
        key, key);
  }
}

[[noreturn]] void refuse_size(const char* key, std::int64_t size, std::int64_t parts,
                              std::string_view whose, const std::string& other) {
  fail_input(
      "fp8.recipe = \"blockwise\" scales blocks of {}, which must not be split across ranks, but "
      "{} = {} over {} = {} is {}: make that a multiple of {}, or use {}",
      fp8_block, key, size, whose, parts, size / parts, fp8_block, other);
}

// `parts`: tensor-parallel ranks or leaves of exact numerics, which messages call `whose`.
void check_uncut_blocks(const ModelConfig& model, std::string_view whose, std::int64_t parts) {
  if (parts <= 1) return;
  const std::string other =
      fmt::format("recipe = \"tensorwise\", or {} = {}", whose, whose == kRanks ? 1 : 0);
  // They split the shared expert's MLP but not routed experts.
  const std::int64_t shared = model.moe.num_experts > 0 ? model.moe.shared_ffn_hidden_size : 0;
  for (const auto& [key, size] : {std::pair{"model.ffn_hidden_size", model.ffn_hidden_size},
                                  {"moe.shared_ffn_hidden_size", shared}}) {
    if (size / parts % fp8_block != 0) refuse_size(key, size, parts, whose, other);
  }
  const std::int64_t queries = model.num_heads * model.head_dim;
  if (queries / parts % fp8_block != 0)
    refuse_size("model.num_heads x head_dim", queries, parts, whose, other);
  // Each group has its queries, followed by its key and value heads.
  const std::int64_t group = (model.num_heads / model.num_kv_heads + 2) * model.head_dim;
  const bool shares_heads = parts > model.num_kv_heads;
  if (shares_heads ? model.head_dim % fp8_block != 0
                   : model.num_kv_heads / parts * group % fp8_block != 0) {
    fail_input(
        "fp8.recipe = \"blockwise\" scales blocks of {}, which must not be split across ranks, but "
        "{} query heads and {} key heads of model.head_dim = {} over {} = {} split them: "
        "use heads of {}, or {}",
        fp8_block, model.num_heads, model.num_kv_heads, model.head_dim, whose, parts, fp8_block,
        other);
  }
}

// Splitting experts across ranks requires per-block scales and slices of whole blocks.
void check_uncut_experts(const Fp8Config& fp8, const ExpertConfig& moe, std::int64_t expert_tp) {
  if (moe.num_experts == 0 || expert_tp == 1) return;
  if (fp8.recipe == Fp8Recipe::tensorwise) {
    fail_input(
        "fp8.recipe = \"tensorwise\" has one scale per expert, but parallel.expert_tp = {} splits "
        "experts: use recipe = \"blockwise\", or increase parallel.ep instead",
        expert_tp);
  }
  if (moe.ffn_hidden_size / expert_tp % fp8_block != 0)
    refuse_size("moe.ffn_hidden_size", moe.ffn_hidden_size, expert_tp, "parallel.expert_tp",
                "expert_tp = 1");
}

}  // namespace

void check_fp8(const Config& config) {
  const Fp8Config& fp8 = config.fp8;
  if (fp8.recipe == Fp8Recipe::none) return check_unused_fp8(fp8);
  if (config.model.is_latent()) {
    fail_input(
        "fp8.recipe = {:?} conflicts with model.kv_lora_rank, whose small projections would be "
        "scaled by each rank's rows: use recipe = \"none\"",
        fp8.recipe);
  }
  const std::int64_t layers = config.model.num_layers;
  if (fp8.first_layers_bf16 + fp8.last_layers_bf16 >= layers) {
    fail_input(
        "fp8.first_layers_bf16 = {} and last_layers_bf16 = {} leave none of model.num_layers = {} "
        "layers for fp8: decrease them, or use fp8.recipe = \"none\"",
        fp8.first_layers_bf16, fp8.last_layers_bf16, layers);
  }
}

void check_fp8_layout(const Config& config) {
  const ParallelConfig& p = config.parallel;
  if (config.fp8.recipe == Fp8Recipe::none) return;
  check_uncut_experts(config.fp8, config.model.moe, p.expert_tp);
  if (config.fp8.recipe != Fp8Recipe::blockwise) return;
  check_uncut_blocks(config.model, kRanks, p.tp);
  check_uncut_blocks(config.model, kLeaves, p.exact_leaves);
  if (p.cp == 1 || p.exact_block > 0) return;
  const bool grows = config.curriculum.schedule != CurriculumSchedule::none;
  const char* const key = grows ? "curriculum.length_step" : "model.seq_length";
  const std::int64_t length = grows ? config.curriculum.length_step : config.model.seq_length;
  if (length / (2 * p.cp) % fp8_block != 0)
    refuse_size(key, length, 2 * p.cp, "the chunks of parallel.cp, 2 cp",
                "recipe = \"tensorwise\", or parallel.cp = 1");
}

std::string precision_text(const Config& config) {
  const Fp8Config& fp8 = config.fp8;
  if (fp8.recipe == Fp8Recipe::none) return std::string(name_of(config.run.precision));
  return fmt::format("{}, products of blocks in fp8 ({}, {})", config.run.precision, fp8.recipe,
                     fp8.format);
}

}  // namespace trireme
