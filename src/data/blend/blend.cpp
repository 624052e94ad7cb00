// Shares of a blend and the order of its samples.
#include "data/blend/blend.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "data/blend/blend_race.h"

namespace trireme {
namespace {

// numpy's pairwise summation: the last bits of the weights, and so the order, depend on it.
double numpy_sum(std::span<const double> values) {
  const std::size_t count = values.size();
  double sum = 0;
  if (count < 8) {
    for (const double value : values) sum += value;
    return sum;
  }
  if (count > 128) {
    std::size_t half = count / 2;
    half -= half % 8;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  double r[8];
  std::copy_n(values.begin(), 8, r);
  std::size_t i = 8;
  for (; i < count - count % 8; i += 8) {
    for (std::size_t k = 0; k < 8; ++k) r[k] += values[i + k];
  }
  sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; i < count; ++i) sum += values[i];
  return sum;
}

}  // namespace

std::vector<double> normalized(std::span<const double> weights) {
  const double sum = numpy_sum(weights);
  std::vector<double> result(weights.begin(), weights.end());
  for (double& weight : result) weight /= sum;
  return result;
}

std::int64_t blend_share(std::int64_t size, double weight) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(size) * weight));
}

std::int64_t blend_supply(std::int64_t size, double weight) {
  return static_cast<std::int64_t>(
      std::ceil(static_cast<double>(blend_share(size, weight)) * (1 + 0.005)));
}

BlendOrder build_blend_order(std::span<const double> weights, std::int64_t size) {
  struct Arrays {
    std::vector<std::int16_t> datasets;
    std::vector<std::int64_t> samples;
  };
  if (weights.size() >= 32767) {
    fail_input("a blend of {} datasets exceeds the maximum of 32766", weights.size());
  }
  BlendRace race(normalized(weights));
  auto arrays = std::make_shared<Arrays>();
  arrays->datasets.resize(static_cast<std::size_t>(size));
  arrays->samples.resize(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    const BlendRace::Turn turn = race.next();
    arrays->datasets[i] = static_cast<std::int16_t>(turn.dataset);
    arrays->samples[i] = turn.sample;
  }
  return {arrays->datasets, arrays->samples, arrays};
}

std::uint64_t blend_order_key(std::span<const double> weights, std::int64_t size) {
  constexpr std::int64_t version = 1;
  Hasher hasher;
  hasher.update(&version, sizeof(version));
  hasher.update(&size, sizeof(size));
  hasher.update(weights.data(), weights.size_bytes());
  return hasher.digest();
}

}  // namespace trireme
