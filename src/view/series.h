// A quantity over the steps of a run in a bounded number of points, however long the run is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

// Successive values of a series, taken together.
struct SeriesPoint {
  std::int64_t step = 0;  // of the last one
  double mean = 0;
  double low = 0, high = 0;
  double last = 0;
  std::int64_t count = 0;
  std::uint64_t version = 0;  // of the reading that changed it last
};

// Each point covers `stride()` values; only the last one may cover fewer. When there are
// `most_points`, neighbors are joined in pairs. So adding takes constant time, old points stay as
// they are until the stride doubles, and a spike never disappears: it stays in `low` and `high`.
class Series {
 public:
  static constexpr std::size_t most_points = 1024;

  // Steps rise; the value is finite.
  void add(std::int64_t step, double value, std::uint64_t version);

  std::span<const SeriesPoint> points() const { return points_; }
  std::int64_t stride() const { return stride_; }
  // The first point that was changed after `version`.
  std::size_t first_after(std::uint64_t version) const;

 private:
  void join_pairs(std::uint64_t version);

  std::vector<SeriesPoint> points_;
  std::int64_t stride_ = 1;
};

}  // namespace trireme
