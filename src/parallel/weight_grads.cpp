// Placement of weight gradients: no other pass depends on them, so they fill the bubbles between
// other passes.
#include <algorithm>
#include <climits>
#include <cmath>
#include <deque>
#include <queue>

#include "base/error.h"
#include "parallel/schedule/orders.h"
#include "parallel/schedule/timeline.h"

namespace trireme {
namespace {

// Executes the order in simulated time. A free rank runs the first possible of: the next pass of
// its order, if ready; a weight gradient, if the wait is long enough or memory is full; waiting.
class Filler {
 public:
  Filler(const PassOrder& order, const StagePlacement& placement,
         const std::vector<PassTimes>& times, int limit, double patience)
      : order_(order),
        placement_(placement),
        times_(times),
        limit_(limit),
        patience_(patience),
        ends_(placement, order),
        ranks_(order.size()),
        filled_(order.size()) {}

  PassOrder run() {
    for (int rank = 0; rank < placement_.ranks; ++rank) free_.push({0, rank});
    while (!free_.empty()) {
      const auto [now, rank] = free_.top();
      free_.pop();
      decide(rank, now);
    }
    for (std::size_t rank = 0; rank < order_.size(); ++rank) {
      TRIREME_CHECK(ranks_[rank].next == order_[rank].size() && ranks_[rank].pending.empty());
    }
    return std::move(filled_);
  }

 private:
  struct Rank {
    std::size_t next = 0;        // in the order
    std::deque<Action> pending;  // weight gradients, oldest first
    int held = 0;
    bool waits = false;  // for a pass whose end is not yet known
    double since = 0;
  };
  using Free = std::pair<double, int>;  // time, rank

  void decide(int rank, double now) {
    Rank& r = ranks_[rank];
    if (r.next == order_[rank].size()) {
      if (!r.pending.empty()) run_weight_grad(rank, now);
      return;
    }
    const Action& next = order_[rank][r.next];
    const double ready = ends_.ready(rank, next);
    const bool full = next.kind == ActionKind::forward && r.held >= limit_;
    const bool can_fill = !r.pending.empty();
    if (full && can_fill) return run_weight_grad(rank, now);
    const double wait = ready < 0 ? 1e300 : ready - now;
    if (wait <= tolerance(now)) return run_pass(rank, now);
    if (can_fill && wait + tolerance(now) >= patience_ * weight_time(rank)) {
      return run_weight_grad(rank, now);
    }
    if (ready >= 0) {
      free_.push({ready, rank});
    } else {
      r.waits = true;
      r.since = now;
    }
  }

  static double tolerance(double now) { return 1e-9 * (1 + now); }

  double weight_time(int rank) const {
    const Action& oldest = ranks_[rank].pending.front();
    return duration(oldest, placement_.stage(rank, oldest.chunk), times_);
  }

  void run_pass(int rank, double now) {
    Rank& r = ranks_[rank];
    const Action& action = order_[rank][r.next++];
    const double end = now + duration(action, placement_.stage(rank, action.chunk), times_);
    filled_[rank].push_back(action);
    if (action.kind == ActionKind::forward) ++r.held;
    if (action.kind == ActionKind::input_grad) {
      r.pending.push_back({ActionKind::weight_grad, action.chunk, action.micro_batch, -1});
    }
    ends_.set(rank, action, end);
    free_.push({end, rank});
    wake(ends_.dependent(rank, action));
  }

  void run_weight_grad(int rank, double now) {
    Rank& r = ranks_[rank];
    const double end = now + weight_time(rank);
    filled_[rank].push_back(r.pending.front());
    r.pending.pop_front();
    --r.held;
    free_.push({end, rank});
  }

  void wake(int rank) {
    if (rank < 0 || !ranks_[rank].waits) return;
    const double ready = ends_.ready(rank, order_[rank][ranks_[rank].next]);
    if (ready < 0) return;
    ranks_[rank].waits = false;
    free_.push({std::max(ready, ranks_[rank].since), rank});
  }

  const PassOrder& order_;
  StagePlacement placement_;
  const std::vector<PassTimes>& times_;
  int limit_;
  double patience_;
  PassEnds ends_;
  std::vector<Rank> ranks_;
  PassOrder filled_;
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free_;
};

// Peak number of micro-batches of chunks on any rank, from forward to weight_grad.
int peak_in_flight(const PassOrder& order) {
  int peak = 0;
  for (const auto& actions : order) {
    int held = 0;
    for (const Action& a : actions) {
      if (a.kind == ActionKind::forward) peak = std::max(peak, ++held);
      if (a.kind == ActionKind::weight_grad) --held;
    }
  }
  return peak;
}

}  // namespace

// Compares candidates on the first micro-batches of a step, which cover ramp-up, steady state and
// ramp-down: first by memory within the limit, then by time; the first wins ties, so that all ranks
// agree. `patience`: minimum length of a bubble to fill, relative to a weight_grad.
PassMaker with_weight_grads(const std::vector<PassMaker>& candidates,
                            const ScheduleRequest& request, const StagePlacement& placement,
                            int limit) {
  struct Choice {
    const PassMaker* make = nullptr;
    double patience = 1;
    int peak = INT_MAX;
    double length = INFINITY;
  } best;
  const int sample = std::min(request.micro_batches, 4 * request.ranks);
  for (const PassMaker& make : candidates) {
    const PassOrder order = make(sample);
    for (const double patience : {1.0, 0.5, 0.0}) {
      const PassOrder filled = Filler(order, placement, request.times, limit, patience).run();
      const int peak = std::max(limit, peak_in_flight(filled));
      const double length = makespan(time_order(filled, placement, request.times));
      if (peak < best.peak || (peak == best.peak && length < best.length * (1 - 1e-9))) {
        best = {&make, patience, peak, length};
      }
    }
  }
  return [=, make = *best.make, patience = best.patience, times = request.times](int m) {
    return Filler(make(m), placement, times, limit, patience).run();
  };
}

}  // namespace trireme
