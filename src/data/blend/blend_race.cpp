// The race among datasets, in blocks of steps. A lag grows until its dataset is taken, so only
// datasets that reach the floor by the end of a block can have its largest lag.
#include "data/blend/blend_race.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

namespace trireme {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

double BlendRace::Pool::largest_lag(double at) const {
  // Four at a time: the order of a maximum does not matter.
  double most[4] = {-kInfinity, -kInfinity, -kInfinity, -kInfinity};
  std::size_t i = 0;
  for (; i + 4 <= size(); i += 4) {
    for (std::size_t k = 0; k < 4; ++k) {
      const double own = lag(i + k, at);
      most[k] = own > most[k] ? own : most[k];
    }
  }
  for (; i < size(); ++i) most[0] = std::max(most[0], lag(i, at));
  return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
}

void BlendRace::Pool::clear() {
  shares.clear();
  taken.clear();
  runners.clear();
}

void BlendRace::Pool::remove(std::size_t place) {
  shares[place] = shares.back();
  taken[place] = taken.back();
  runners[place] = runners.back();
  shares.pop_back();
  taken.pop_back();
  runners.pop_back();
}

BlendRace::BlendRace(std::span<const double> shares) : floor_(-kInfinity) {
  std::map<double, std::vector<std::int32_t>> datasets;
  for (std::size_t d = 0; d < shares.size(); ++d) {
    datasets[shares[d]].push_back(static_cast<std::int32_t>(d));
  }
  for (auto& [share, equal] : datasets) {
    runners_.push_back({.share = share, .datasets = std::move(equal)});
  }
  later_.resize(runners_.size());
}

double BlendRace::now() const {
  return std::max(static_cast<double>(step_), 1.0);
}

double BlendRace::end_of_block() const {
  return std::max(static_cast<double>(block_end_ - 1), 1.0);
}

void BlendRace::enter(std::int32_t runner) {
  const Runner& entering = runners_[static_cast<std::size_t>(runner)];
  pool_.shares.push_back(entering.share);
  pool_.taken.push_back(entering.taken);
  pool_.runners.push_back(runner);
}

void BlendRace::enter_all() {
  pool_.clear();
  arrivals_.assign(kBlock, -1);
  for (std::size_t r = 0; r < runners_.size(); ++r) enter(static_cast<std::int32_t>(r));
}

void BlendRace::begin_block() {
  block_end_ = (step_ / kBlock + 1) * kBlock;
  sort_runners();
  if (pool_.size() <= kCrowd) return;
  // The floor is low enough that some remain above it when a few of them are taken.
  std::vector<double> lags;
  for (std::size_t i = 0; i < pool_.size(); ++i) lags.push_back(pool_.lag(i, now()));
  std::nth_element(lags.begin(), lags.begin() + kKept, lags.end(), std::greater<>());
  floor_ = lags[kKept];
  sort_runners();
}

// Puts each runner into the pool, or where it arrives: a step early, so that roundings of the
// division do not matter.
void BlendRace::sort_runners() {
  pool_.clear();
  arrivals_.assign(kBlock, -1);
  for (std::size_t r = 0; r < runners_.size(); ++r) {
    const Runner& runner = runners_[r];
    if (runner.share * end_of_block() - runner.taken < floor_) continue;
    if (runner.share * now() - runner.taken >= floor_) {
      enter(static_cast<std::int32_t>(r));
      continue;
    }
    const double reached = std::floor((floor_ + runner.taken) / runner.share) - 1;
    const auto step = static_cast<std::int64_t>(
        std::clamp(reached, static_cast<double>(step_), static_cast<double>(block_end_ - 1)));
    later_[r] = arrivals_[static_cast<std::size_t>(step % kBlock)];
    arrivals_[static_cast<std::size_t>(step % kBlock)] = static_cast<std::int32_t>(r);
  }
}

// Of the runners with this lag, the place of the one with the first dataset.
std::size_t BlendRace::first_with(double lag) const {
  std::size_t best = pool_.size();
  std::int32_t first = std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    if (pool_.lag(i, now()) != lag) continue;
    const std::int32_t dataset = runners_[static_cast<std::size_t>(pool_.runners[i])].dataset();
    if (dataset < first) {
      first = dataset;
      best = i;
    }
  }
  return best;
}

BlendRace::Turn BlendRace::next() {
  if (step_ == block_end_) begin_block();
  for (std::int32_t r = arrivals_[static_cast<std::size_t>(step_ % kBlock)]; r >= 0;
       r = later_[static_cast<std::size_t>(r)]) {
    enter(r);
  }
  double most = pool_.largest_lag(now());
  if (most < floor_ || pool_.size() == 0) {
    // All are compared, and a lower floor is tried from the next step on.
    enter_all();
    most = pool_.largest_lag(now());
    floor_ = most - 8 / static_cast<double>(runners_.size());
    block_end_ = step_ + 1;
  }
  const Turn turn = take(first_with(most));
  ++step_;
  return turn;
}

BlendRace::Turn BlendRace::take(std::size_t place) {
  Runner& runner = runners_[static_cast<std::size_t>(pool_.runners[place])];
  const Turn turn{runner.dataset(), static_cast<std::int64_t>(runner.taken)};
  if (++runner.turn < runner.datasets.size()) return turn;
  runner.turn = 0;
  pool_.taken[place] = ++runner.taken;
  if (runner.share * end_of_block() - runner.taken < floor_) pool_.remove(place);
  return turn;
}

}  // namespace trireme
