// Assigns the layers of a model to stages.
#include "parallel/stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/counted.h"
#include "base/error.h"
#include "config/divisors.h"

namespace trireme {

std::vector<std::int64_t> balanced_stage_layers(std::int64_t num_layers, int stages) {
  std::vector<std::int64_t> counts(stages, num_layers / stages);
  const auto left_over = static_cast<int>(num_layers % stages);
  const int first = (stages - left_over + 1) / 2;
  for (int i = 0; i < left_over; ++i) ++counts[first + i];
  return counts;
}

namespace {

std::string proposal(std::int64_t num_layers, int stages) {
  if (num_layers < stages) {
    return fmt::format("use at most {} (parallel.pp x parallel.virtual_stages)",
                       counted(num_layers, "stage"));
  }
  return fmt::format("set parallel.stage_layers = [{}]",
                     fmt::join(balanced_stage_layers(num_layers, stages), ", "));
}

void check_counts(std::int64_t num_layers, int stages, const std::vector<std::int64_t>& counts) {
  if (static_cast<int>(counts.size()) != stages) {
    fail_input(
        "parallel.stage_layers has {}, but there are {} (parallel.pp x "
        "parallel.virtual_stages): {}",
        counted(counts.size(), "entry"), counted(stages, "stage"), proposal(num_layers, stages));
  }
  // Checked before summing, which could overflow.
  const bool in_range = std::all_of(counts.begin(), counts.end(), [&](std::int64_t count) {
    return count >= 1 && count <= num_layers;
  });
  if (!in_range || std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != num_layers) {
    fail_input(
        "parallel.stage_layers = [{}] must be at least 1 each and sum to the {} of the "
        "model: {}",
        fmt::join(counts, ", "), counted(num_layers, "layer"), proposal(num_layers, stages));
  }
}

}  // namespace

std::vector<LayerRange> assign_layers(std::int64_t num_layers, const StagePlacement& placement,
                                      const std::vector<std::int64_t>& stage_layers) {
  const int stages = placement.stages();
  std::vector<std::int64_t> counts = stage_layers;
  if (counts.empty()) {
    if (num_layers < 1 || num_layers % stages) {
      fail_input(
          "{} cannot be divided into {} equal stages ({} ranks x {} virtual): {}, or choose "
          "a number of stages that divides them, such as {}",
          counted(num_layers, "layer"), stages, placement.ranks, placement.chunks,
          proposal(num_layers, stages),
          divisors_near(std::max<std::int64_t>(num_layers, 1), stages));
    }
    counts.assign(stages, num_layers / stages);
  }
  check_counts(num_layers, stages, counts);
  std::vector<LayerRange> ranges;
  std::int64_t begin = 0;
  for (const std::int64_t count : counts) {
    ranges.push_back({begin, begin + count});
    begin += count;
  }
  return ranges;
}

}  // namespace trireme
