// When every compute action begins and ends if data moves in no time: the ideal run of an order.
#pragma once

#include <vector>

#include "parallel/orders.h"

namespace trireme {

struct Span {
  double begin = 0;
  double end = 0;
};

// Spans by rank and position. Empty if the order deadlocks.
std::vector<std::vector<Span>> time_order(const PassOrder& order, const StagePlacement& placement,
                                          const std::vector<PassTimes>& times);

double duration(const Action& action, int stage, const std::vector<PassTimes>& times);

// The end of the last span.
double makespan(const std::vector<std::vector<Span>>& spans);

// Ends of the passes that others depend on, by stage and micro-batch; negative: not known yet.
class PassEnds {
 public:
  PassEnds(const StagePlacement& placement, const PassOrder& order);

  // When the inputs of an action are there, if data moves in no time; negative: not known yet.
  double ready(int rank, const Action& action) const;
  void set(int rank, const Action& action, double end);
  // The rank whose action may have become ready through this one; -1 if none.
  int dependent(int rank, const Action& action) const;

 private:
  std::size_t at(int stage, int micro_batch) const;

  StagePlacement placement_;
  int micro_batches_ = 0;
  std::vector<double> forward_, backward_;
};

}  // namespace trireme
