// Checks that every sequence length of the run can be split as configured.
#include "config/sequences.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "config/divisors.h"

namespace trireme {
namespace {

struct Length {
  const char* name;
  std::int64_t positions;
};

// The longest sequence and, with a curriculum, the step that all shorter lengths are multiples of.
std::vector<Length> lengths_of(const Config& config) {
  std::vector<Length> lengths = {{"model.seq_length", config.model.seq_length}};
  if (config.curriculum.schedule != CurriculumSchedule::none)
    lengths.push_back({"curriculum.length_step", config.curriculum.length_step});
  return lengths;
}

// Ring attention accumulates in a different order on each rank. Attention dropout is drawn for
// eight keys at a time.
void check_ring(const Config& config) {
  constexpr std::int64_t drawn = 8;
  const ParallelConfig& p = config.parallel;
  if (p.cp_attention != ContextAttention::ring) return;
  if (p.exact()) {
    fail_input(
        "parallel.cp_attention = \"ring\" sums over keys in a different order on each rank, but "
        "parallel.numerics = {:?} requires an order that does not depend on parallel.cp = {}: "
        "use cp_attention = \"all_gather\" or \"ulysses\", or numerics = \"fast\"",
        p.numerics, p.cp);
  }
  if (config.model.attention_dropout == 0) return;
  for (const auto& [name, positions] : lengths_of(config)) {
    const std::int64_t chunk = positions / (2 * p.cp);
    if (chunk % drawn == 0) continue;
    fail_input(
        "parallel.cp_attention = \"ring\" with model.attention_dropout = {} requires chunks of a "
        "multiple of {} positions, but {} / {} = {} of {} is not one: use cp_attention = "
        "\"all_gather\", or another {}",
        config.model.attention_dropout, drawn, positions, 2 * p.cp, chunk, name, name);
  }
}

void check_context(const Config& config) {
  const ParallelConfig& p = config.parallel;
  if (p.cp == 1) return;
  for (const auto& [name, positions] : lengths_of(config)) {
    if (positions % (2 * p.cp) == 0) continue;
    const std::int64_t pairs = positions / 2;
    fail_input(
        "parallel.cp = {} splits sequences into {} equal chunks, but {} = {} is not divisible by "
        "that: cp can be {}",
        p.cp, 2 * p.cp, name, positions,
        positions % 2 == 0 ? divisors_near(pairs, p.cp) : std::string("1"));
  }
  if (!config.model.linear_layers.empty())
    fail_input(
        "parallel.cp = {} cuts sequences, which model.linear_layers read from their first position "
        "on: use 1",
        p.cp);
  check_ring(config);
  if (p.cp_attention != ContextAttention::ulysses) return;
  const std::int64_t heads = std::max<std::int64_t>(1, config.model.num_kv_heads / p.tp);
  if (heads % p.cp == 0) return;
  fail_input(
      "parallel.cp_attention = \"ulysses\" distributes the {} key and value heads of each rank "
      "(with parallel.tp = {} and model.num_kv_heads = {}) over parallel.cp = {} ranks: cp can be "
      "{}, or use cp_attention = \"all_gather\"",
      heads, p.tp, config.model.num_kv_heads, p.cp, divisors_near(heads, p.cp));
}

// A sum over a micro-batch's tokens becomes a sum over the rank's tokens, which depend on the
// number of ranks.
void check_exact_context(const Config& config) {
  const ParallelConfig& p = config.parallel;
  if (p.cp == 1 || !p.exact()) return;
  for (const auto& [name, positions] : lengths_of(config)) {
    const std::int64_t chunk = positions / (2 * p.cp);
    if (p.exact_block > 0 && chunk % p.exact_block == 0) continue;
    fail_input(
        "parallel.numerics = {:?} with parallel.cp = {} sums over blocks of tokens that must "
        "divide its chunks of {} / {} = {} positions of {}: set parallel.exact_block to {} (now "
        "{})",
        p.numerics, p.cp, positions, 2 * p.cp, chunk, name,
        divisors_near(chunk, p.exact_block > 0 ? p.exact_block : chunk), p.exact_block);
  }
}

void check_exact_block(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::int64_t block = p.exact_block;
  if (block == 0) return;
  if (!p.exact()) {
    fail_input(
        "parallel.exact_block = {} requires parallel.numerics = \"exact\" or \"portable\": set "
        "numerics, or remove exact_block",
        block);
  }
  for (const auto& [name, positions] : lengths_of(config)) {
    if (positions % block == 0) continue;
    fail_input(
        "parallel.exact_block = {} does not divide {} = {}: gradients are summed over whole blocks "
        "of a sequence, so exact_block can be {}",
        block, name, positions, divisors_near(positions, block));
  }
  if (!p.sequence_parallel || p.tp == 1) return;
  for (const auto& [name, positions] : lengths_of(config)) {
    const std::int64_t rows = config.train.micro_batch_size * positions / p.cp / p.tp;
    if (rows % block == 0) continue;
    fail_input(
        "parallel.exact_block = {} does not divide the {} positions that "
        "parallel.sequence_parallel "
        "leaves each of parallel.tp = {} ranks of a micro-batch ({} = {}): exact_block can be {}",
        block, rows, p.tp, name, positions, divisors_near(std::gcd(rows, positions), block));
  }
}

}  // namespace

void check_sequences(const Config& config) {
  check_context(config);
  check_exact_context(config);
  check_exact_block(config);
}

}  // namespace trireme
