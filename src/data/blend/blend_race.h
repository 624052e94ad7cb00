// The order of a blend in a time that does not grow with the number of datasets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

// Step i takes the next sample of the dataset with the largest lag, share * max(i, 1) - taken; of
// equals the first. Only few come into question at a step: those with a lag above a floor that the
// largest never fell below. Every lag is computed as in the definition, so that its last bits,
// which decide, are the same.
class BlendRace {
 public:
  // Shares are not negative.
  explicit BlendRace(std::span<const double> shares);

  struct Turn {
    std::int32_t dataset;
    std::int64_t sample;  // of that dataset
  };
  // The turn of the next step, from 0 on.
  Turn next();

 private:
  static constexpr std::int64_t kBlock = 256;  // steps
  static constexpr std::size_t kCrowd = 48, kKept = 16;

  // Datasets of one share, which take turns in the order of their numbers.
  struct Runner {
    double share = 0;
    double taken = 0;  // of the dataset whose turn it is
    std::size_t turn = 0;
    std::vector<std::int32_t> datasets;

    std::int32_t dataset() const { return datasets[turn]; }
  };

  // The runners that come into question, with what their lags are made of side by side.
  struct Pool {
    std::vector<double> shares, taken;
    std::vector<std::int32_t> runners;

    std::size_t size() const { return runners.size(); }
    double lag(std::size_t place, double at) const { return shares[place] * at - taken[place]; }
    double largest_lag(double at) const;
    void clear();
    void remove(std::size_t place);
  };

  double now() const;
  double end_of_block() const;
  void enter(std::int32_t runner);
  void enter_all();
  void begin_block();
  void sort_runners();
  std::size_t first_with(double lag) const;
  Turn take(std::size_t place);

  std::vector<Runner> runners_;
  std::int64_t step_ = 0;
  std::int64_t block_end_ = 0;
  double floor_;
  // All runners whose lags are at least floor_, and some others.
  Pool pool_;
  // Those that may reach floor_ at a later step of the block: lists by step.
  std::vector<std::int32_t> arrivals_, later_;
};

}  // namespace trireme
