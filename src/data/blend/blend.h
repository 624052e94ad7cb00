// Blends of several datasets by weight, as Megatron's BlendedDataset defines them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "config/blend_list.h"

namespace trireme {

// Weights divided by their sum, which is taken in numpy's order of additions.
std::vector<double> normalized(std::span<const double> weights);

// Samples that a dataset of normalised weight `weight` gives to a blend of `size` samples.
std::int64_t blend_share(std::int64_t size, double weight);
// Samples to prepare in that dataset: half a percent more, since the blend follows the weights and
// not these numbers.
std::int64_t blend_supply(std::int64_t size, double weight);

// The dataset and sample at each position of a blend.
struct BlendOrder {
  std::span<const std::int16_t> datasets;
  std::span<const std::int64_t> samples;
  std::shared_ptr<const void> storage;

  std::int64_t size() const { return static_cast<std::int64_t>(datasets.size()); }
};

// Step i takes the next sample of the dataset that lags furthest behind its weight,
// weight * max(i, 1) - taken; of equals the first. `weights` are normalised here.
BlendOrder build_blend_order(std::span<const double> weights, std::int64_t size);

std::uint64_t blend_order_key(std::span<const double> weights, std::int64_t size);

}  // namespace trireme
