// Checks parallel.exact_leaves against the model, the layout and unsupported features.
#include "config/exact_leaves.h"

#include <array>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "config/divisors.h"
#include "config/families.h"
#include "config/optimizers.h"

namespace trireme {
namespace {

// Largest power of two that divides a number.
std::int64_t largest_power(std::int64_t number) {
  return std::int64_t{1} << std::countr_zero(static_cast<std::uint64_t>(number));
}

struct Uncovered {
  bool (*meets)(const Config&);
  const char* what;
};

// Settings that make a sum whose order leaves do not fix, and what messages call them.
constexpr std::array<Uncovered, 9> kUncovered{{
    {[](const Config& c) { return c.run.device != DeviceKind::cpu; },
     "run.device other than \"cpu\", whose libraries have orders of their own"},
    {[](const Config& c) { return family_of(c.model).architecture != Architecture::decoder; },
     "a model.family other than gpt and llama and their relatives"},
    {[](const Config& c) { return c.model.moe.num_experts > 0; },
     "experts (moe.num_experts), whose rows go to other ranks"},
    {[](const Config& c) { return c.model.is_latent(); }, "latent attention (model.kv_lora_rank)"},
    {[](const Config& c) { return c.model.qk_norm && c.model.qk_norm_over == NormSpan::all_heads; },
     "model.qk_norm_over = \"all_heads\", a sum over the heads of all ranks"},
    {[](const Config& c) { return c.model.attention_sinks; },
     "model.attention_sinks, a number for each head whose squares leaves do not keep apart"},
    {[](const Config& c) { return c.fp8.recipe != Fp8Recipe::none; },
     "fp8.recipe, whose scales follow from each rank's part of a weight"},
    {[](const Config& c) { return c.optimizer.name == OptimizerKind::muon; },
     "optimizer.name = \"muon\", which makes sums over whole matrices"},
    {[](const Config& c) { return c.optimizer.moment_dtype != StateType::fp32; },
     "optimizer.moment_dtype = \"bf16\", whose rounding knows the place in a rank's part"},
}};

void check_covered(const Config& config) {
  for (const auto& [meets, what] : kUncovered) {
    if (!meets(config)) continue;
    fail_input(
        "parallel.exact_leaves = {} does not cover {}: leave exact_leaves out, and bits depend on "
        "parallel.tp",
        config.parallel.exact_leaves, what);
  }
}

}  // namespace

void check_exact_leaves(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::int64_t leaves = p.exact_leaves;
  if (leaves == 0) return;
  if (!p.exact()) {
    fail_input(
        "parallel.exact_leaves = {} goes with parallel.numerics = \"exact\" or \"portable\" only: set that or "
        "leave exact_leaves out",
        leaves);
  }
  check_covered(config);
  const ModelConfig& m = config.model;
  const std::int64_t most = largest_power(std::gcd(m.num_kv_heads, m.ffn_hidden_size));
  for (const auto& [name, size] : {std::pair{"num_kv_heads", m.num_kv_heads},
                                   std::pair{"ffn_hidden_size", m.ffn_hidden_size}}) {
    if (size % leaves == 0) continue;
    fail_input(
        "parallel.exact_leaves = {} does not divide model.{} = {}: each leaf has whole key and "
        "value heads with their queries and an equal part of the MLP; exact_leaves can be {}",
        leaves, name, size, divisors_near(most, leaves));
  }
  if (largest_power(leaves) != leaves) {
    fail_input(
        "parallel.exact_leaves = {} is not a power of two, as the tree of its sums needs: it can be "
        "{}",
        leaves, divisors_near(most, leaves));
  }
  if (leaves % p.tp != 0) {
    fail_input(
        "parallel.tp = {} does not divide parallel.exact_leaves = {}: each rank has whole leaves; "
        "tp can be {}",
        p.tp, leaves, divisors_near(leaves, p.tp));
  }
  if (p.exact_block == 0) {
    const std::int64_t rows =
        config.train.micro_batch_size * m.seq_length / p.cp / (p.sequence_parallel ? p.tp : 1);
    fail_input(
        "parallel.exact_leaves = {} needs parallel.exact_block, so that the rows of a product "
        "depend on no layout: set exact_block to {} or another divisor of model.seq_length = {}",
        leaves, std::gcd(rows, m.seq_length), m.seq_length);
  }
}

}  // namespace trireme
