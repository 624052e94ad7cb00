// Sequences of every length that training has, against the parts that they are cut into.
#include "config/sequences.h"

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

// The longest sequence, and with a curriculum what all shorter ones are multiples of.
std::vector<Length> lengths_of(const Config& config) {
  std::vector<Length> lengths = {{"model.seq_length", config.model.seq_length}};
  if (config.curriculum.schedule != "none")
    lengths.push_back({"curriculum.length_step", config.curriculum.length_step});
  return lengths;
}

void check_exact_block(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::int64_t block = p.exact_block;
  if (block == 0) return;
  if (p.numerics != "exact") {
    fail_input(
        "parallel.exact_block = {} goes with parallel.numerics = \"exact\" only: set that or leave "
        "exact_block out",
        block);
  }
  for (const auto& [name, positions] : lengths_of(config)) {
    if (positions % block == 0) continue;
    fail_input(
        "parallel.exact_block = {} does not divide {} = {}: gradients are summed over whole blocks "
        "of a sequence; exact_block can be {}",
        block, name, positions, divisors_near(positions, block));
  }
  if (!p.sequence_parallel || p.tp == 1) return;
  for (const auto& [name, positions] : lengths_of(config)) {
    const std::int64_t rows = config.train.micro_batch_size * positions / p.tp;
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
  check_exact_block(config);
}

}  // namespace trireme
