// Checks parallel.exact_leaves against the model, the layout and unsupported features.
#include "config/exact_leaves.h"

#include <array>
#include <bit>
#include <numeric>
#include <vector>

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

bool is_bert(const Config& c) {
  return family_of(c.model).architecture == Architecture::encoder;
}

struct Uncovered {
  bool (*meets)(const Config&);
  const char* what;
};

// Settings that make a sum whose order leaves do not fix, and what messages call them.
constexpr std::array<Uncovered, 6> kUncovered{{
    {[](const Config& c) { return family_of(c.model).architecture == Architecture::added; },
     "a model.family that a program adds"},
    {[](const Config& c) {
       return c.model.qk_norm && c.model.qk_norm_over == NormSpan::all_heads &&
              c.parallel.exact_leaves > c.model.num_kv_heads;
     },
     "more leaves than model.num_kv_heads with model.qk_norm_over = \"all_heads\", which counts each "
     "key head once"},
    {[](const Config& c) { return is_bert(c) && c.model.qk_norm; },
     "model.qk_norm with model.family = \"bert\", whose gradient each rank sums over its heads"},
    {[](const Config& c) {
       return is_bert(c) && c.parallel.sequence_parallel && c.parallel.tp > 1;
     },
     "parallel.sequence_parallel with model.family = \"bert\", whose norms then sum gradients over "
     "each rank's rows"},
    {[](const Config& c) {
       return c.fp8.recipe == Fp8Recipe::blockwise && !c.model.linear_layers.empty();
     },
     "fp8.recipe = \"blockwise\" with model.linear_layers, whose projections leaves would cut "
     "within a block"},
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

// What ranks may split: key and value heads, of which leaves that are more have copies, and widths.
struct Split {
  const char* name;
  std::int64_t size;
};
std::vector<Split> splits_of(const ModelConfig& m) {
  const bool copies = std::has_single_bit(static_cast<std::uint64_t>(m.num_kv_heads));
  std::vector<Split> splits;
  if (copies)
    splits.push_back({"model.num_heads", m.num_heads});
  else
    splits.push_back({"model.num_kv_heads", m.num_kv_heads});
  splits.push_back({"model.ffn_hidden_size", m.ffn_hidden_size});
  if (m.moe.shared_ffn_hidden_size > 0)
    splits.push_back({"moe.shared_ffn_hidden_size", m.moe.shared_ffn_hidden_size});
  if (!m.linear_layers.empty()) splits.push_back({"model.linear_key_heads", m.linear_key_heads});
  return splits;
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
  const std::vector<Split> splits = splits_of(m);
  std::int64_t common = 0;
  for (const Split& split : splits) common = std::gcd(common, split.size);
  const std::int64_t most = largest_power(common);
  for (const auto& [name, size] : splits) {
    if (size % leaves == 0) continue;
    fail_input(
        "parallel.exact_leaves = {} does not divide {} = {}: each leaf contains whole query heads "
        "with their key and value heads, and an equal part of every MLP; exact_leaves can be {}",
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
  // BERT has no blocks: its micro-batches have the same rows on every layout.
  if (p.exact_block == 0 && !is_bert(config)) {
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
