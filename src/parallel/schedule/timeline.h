// Start and end times of compute actions if transfers are instantaneous: the ideal run of an order.
#pragma once

#include <vector>

#include "parallel/schedule/orders.h"

namespace trireme {

struct Span {
  double begin = 0;
  double end = 0;
};

// Returns the spans by rank and position; empty if the order deadlocks.
std::vector<std::vector<Span>> time_order(const PassOrder& order, const StagePlacement& placement,
                                          const std::vector<PassTimes>& times);

double duration(const Action& action, int stage, const std::vector<PassTimes>& times);

// Returns the end of the last span.
double makespan(const std::vector<std::vector<Span>>& spans);

// End times of the passes that others depend on, by stage and micro-batch; negative: unknown.
class PassEnds {
 public:
  PassEnds(const StagePlacement& placement, const PassOrder& order);

  // Time at which an action's inputs are ready with instantaneous transfers; negative: unknown.
  double ready(int rank, const Action& action) const;
  void set(int rank, const Action& action, double end);
  // Returns the rank whose action this one may unblock; -1 if none.
  int dependent(int rank, const Action& action) const;

 private:
  std::size_t at(int stage, int micro_batch) const;

  StagePlacement placement_;
  int micro_batches_ = 0;
  std::vector<double> forward_, backward_;
};

}  // namespace trireme
