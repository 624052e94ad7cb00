// Data flow over an order: each rank advances as far as its inputs are known, then waits until it
// is resumed.
#include "parallel/schedule/timeline.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

double duration(const Action& action, int stage, const std::vector<PassTimes>& times) {
  const PassTimes& t = times.size() == 1 ? times[0] : times[stage];
  if (action.kind == ActionKind::forward) return t.forward;
  if (action.kind == ActionKind::input_grad) return t.input_grad;
  if (action.kind == ActionKind::weight_grad) return t.weight_grad;
  return action.kind == ActionKind::backward ? t.input_grad + t.weight_grad : 0;
}

double makespan(const std::vector<std::vector<Span>>& spans) {
  double end = 0;
  for (const auto& rank : spans) {
    if (!rank.empty()) end = std::max(end, rank.back().end);
  }
  return end;
}

PassEnds::PassEnds(const StagePlacement& placement, const PassOrder& order)
    : placement_(placement) {
  for (const auto& actions : order) {
    for (const Action& a : actions) micro_batches_ = std::max(micro_batches_, a.micro_batch + 1);
  }
  forward_.assign(static_cast<std::size_t>(placement.stages()) * micro_batches_, -1);
  backward_ = forward_;
}

std::size_t PassEnds::at(int stage, int micro_batch) const {
  return static_cast<std::size_t>(stage) * micro_batches_ + micro_batch;
}

double PassEnds::ready(int rank, const Action& action) const {
  const int stage = placement_.stage(rank, action.chunk);
  const int m = action.micro_batch;
  if (!is_compute(action.kind)) return 0;
  if (action.kind == ActionKind::forward) return stage == 0 ? 0 : forward_[at(stage - 1, m)];
  if (action.kind == ActionKind::weight_grad) return backward_[at(stage, m)];
  const double own = forward_[at(stage, m)];
  if (stage + 1 == placement_.stages() || own < 0) return own;
  const double next = backward_[at(stage + 1, m)];
  return next < 0 ? next : std::max(own, next);
}

void PassEnds::set(int rank, const Action& action, double end) {
  const std::size_t index = at(placement_.stage(rank, action.chunk), action.micro_batch);
  if (action.kind == ActionKind::forward) forward_[index] = end;
  if (action.kind == ActionKind::backward || action.kind == ActionKind::input_grad) {
    backward_[index] = end;
  }
}

int PassEnds::dependent(int rank, const Action& action) const {
  const int stage = placement_.stage(rank, action.chunk);
  if (action.kind == ActionKind::forward) {
    return stage + 1 == placement_.stages() ? -1 : placement_.rank_of(stage + 1);
  }
  if (action.kind == ActionKind::weight_grad || stage == 0) return -1;
  return placement_.rank_of(stage - 1);
}

std::vector<std::vector<Span>> time_order(const PassOrder& order, const StagePlacement& placement,
                                          const std::vector<PassTimes>& times) {
  std::vector<std::vector<Span>> spans(order.size());
  PassEnds ends(placement, order);
  std::vector<int> to_visit;
  for (int rank = placement.ranks - 1; rank >= 0; --rank) to_visit.push_back(rank);
  while (!to_visit.empty()) {
    const int rank = to_visit.back();
    to_visit.pop_back();
    auto& done = spans[rank];
    while (done.size() < order[rank].size()) {
      const Action& action = order[rank][done.size()];
      const double ready = ends.ready(rank, action);
      if (ready < 0) break;
      const double begin = std::max(ready, done.empty() ? 0 : done.back().end);
      const double end = begin + duration(action, placement.stage(rank, action.chunk), times);
      done.push_back({begin, end});
      ends.set(rank, action, end);
      const int other = ends.dependent(rank, action);
      if (other >= 0 && other != rank) to_visit.push_back(other);
    }
  }
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    if (spans[rank].size() < order[rank].size()) return {};
  }
  return spans;
}

}  // namespace trireme
