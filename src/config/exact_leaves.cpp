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
     "run.device other than \"cpu\", because its libraries use their own summation order"},
    {[](const Config& c) { return family_of(c.model).architecture != Architecture::decoder; },
     "a model.family other than gpt, llama and families based on them"},
    {[](const Config& c) { return c.model.moe.num_experts > 0; },
     "experts (moe.num_experts), because their tokens are sent to other ranks"},
    {[](const Config& c) { return c.model.is_latent(); }, "latent attention (model.kv_lora_rank)"},
    {[](const Config& c) { return c.model.qk_norm && c.model.qk_norm_over == NormSpan::all_heads; },
     "model.qk_norm_over = \"all_heads\", a sum over the heads of all ranks"},
    {[](const Config& c) { return c.model.attention_sinks; },
     "model.attention_sinks, because leaves do not separate the squared gradients of the heads' "
     "sinks"},
    {[](const Config& c) { return c.fp8.recipe != Fp8Recipe::none; },
     "fp8.recipe, because its scales depend on each rank's part of a weight"},
    {[](const Config& c) { return c.optimizer.name == OptimizerKind::muon; },
     "optimizer.name = \"muon\", because it sums over whole matrices"},
    {[](const Config& c) { return c.optimizer.moment_dtype != StateType::fp32; },
     "optimizer.moment_dtype = \"bf16\", because its rounding depends on the position in a rank's "
     "part"},
}};

void check_covered(const Config& config) {
  for (const auto& [meets, what] : kUncovered) {
    if (!meets(config)) continue;
    fail_input(
        "parallel.exact_leaves = {} does not support {}: remove exact_leaves, so that bits depend "
        "on parallel.tp",
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
        "parallel.exact_leaves = {} requires parallel.numerics = \"exact\" or \"portable\": set "
        "numerics, or remove exact_leaves",
        leaves);
  }
  check_covered(config);
  const ModelConfig& m = config.model;
  const std::int64_t linear = m.linear_layers.empty() ? 0 : m.linear_key_heads;
  const std::int64_t most =
      largest_power(std::gcd(std::gcd(m.num_kv_heads, m.ffn_hidden_size), linear));
  for (const auto& [name, size] : {std::pair{"num_kv_heads", m.num_kv_heads},
                                   {"ffn_hidden_size", m.ffn_hidden_size},
                                   {"linear_key_heads", linear}}) {
    if (size % leaves == 0) continue;
    fail_input(
        "parallel.exact_leaves = {} does not divide model.{} = {}: each leaf contains whole key "
        "and value heads with their queries and an equal part of the MLP; exact_leaves can be {}",
        leaves, name, size, divisors_near(most, leaves));
  }
  if (largest_power(leaves) != leaves) {
    fail_input(
        "parallel.exact_leaves = {} is not a power of two, which its summation tree requires: it "
        "can be {}",
        leaves, divisors_near(most, leaves));
  }
  if (leaves % p.tp != 0) {
    fail_input(
        "parallel.tp = {} does not divide parallel.exact_leaves = {}: each rank must have whole "
        "leaves; tp can be {}",
        p.tp, leaves, divisors_near(leaves, p.tp));
  }
  if (p.exact_block == 0) {
    const std::int64_t rows =
        config.train.micro_batch_size * m.seq_length / p.cp / (p.sequence_parallel ? p.tp : 1);
    fail_input(
        "parallel.exact_leaves = {} requires parallel.exact_block, which makes the rows of a "
        "product independent of the layout: set exact_block to {} or another divisor of "
        "model.seq_length = {}",
        leaves, std::gcd(rows, m.seq_length), m.seq_length);
  }
}

}  // namespace trireme
