// A quantity over the steps of a run, downsampled to a bounded number of points.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

// Consecutive values of a series, aggregated.
struct SeriesPoint {
  std::int64_t step = 0;  // of the last one
  double mean = 0;
  double low = 0, high = 0;
  double last = 0;
  std::int64_t count = 0;
  std::uint64_t version = 0;  // of the refresh that last changed it
};

// Each point covers `stride()` values; the last may cover fewer. At `most_points` points, neighbors
// are merged in pairs. Adding thus takes amortized constant time, old points do not change until
// the stride doubles, and spikes never disappear: they remain in `low` and `high`.
class Series {
 public:
  static constexpr std::size_t most_points = 1024;

  // Steps must increase; the value must be finite.
  void add(std::int64_t step, double value, std::uint64_t version);

  std::span<const SeriesPoint> points() const { return points_; }
  std::int64_t stride() const { return stride_; }
  // Index of the first point changed after `version`.
  std::size_t first_after(std::uint64_t version) const;

 private:
  void join_pairs(std::uint64_t version);

  std::vector<SeriesPoint> points_;
  std::int64_t stride_ = 1;
};

}  // namespace trireme
