// Points, merged in pairs when there are too many.
#include "view/series.h"

#include <algorithm>

namespace trireme {
namespace {

SeriesPoint joined(const SeriesPoint& a, const SeriesPoint& b) {
  SeriesPoint both = b;
  both.count = a.count + b.count;
  const double share = static_cast<double>(b.count) / static_cast<double>(both.count);
  both.mean = a.mean + (b.mean - a.mean) * share;
  both.low = std::min(a.low, b.low);
  both.high = std::max(a.high, b.high);
  return both;
}

}  // namespace

void Series::add(std::int64_t step, double value, std::uint64_t version) {
  const SeriesPoint point{step, value, value, value, value, 1, version};
  if (!points_.empty() && points_.back().count < stride_) {
    points_.back() = joined(points_.back(), point);
    return;
  }
  if (points_.size() == most_points) join_pairs(version);
  points_.push_back(point);
}

void Series::join_pairs(std::uint64_t version) {
  for (std::size_t i = 0; i < points_.size() / 2; ++i) {
    points_[i] = joined(points_[2 * i], points_[2 * i + 1]);
    points_[i].version = version;
  }
  points_.resize(points_.size() / 2);
  stride_ *= 2;
}

std::size_t Series::first_after(std::uint64_t version) const {
  const auto first = std::partition_point(
      points_.begin(), points_.end(),
      [version](const SeriesPoint& point) { return point.version <= version; });
  return static_cast<std::size_t>(first - points_.begin());
}

}  // namespace trireme
