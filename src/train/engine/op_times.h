// Per-op timing of training steps on random tokens: for `trireme bench` and `trireme
// profile`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/batch.h"
#include "graph/op.h"
#include "model/transformer.h"
#include "runtime/stage.h"

namespace trireme {

struct OpTime {
  std::string op;
  double calls = 0;    // per step
  double seconds = 0;  // per step
  double flops = 0;    // per step
  double bytes = 0;    // read and written, per step
};

// Measures by the clock of the queue that runs an op: without waits, so a step takes no longer.
// Waits of the host for other ranks within an op are excluded on a device that runs everything
// synchronously.
class OpTimes : public Observer {
 public:
  explicit OpTimes(const Device& device);
  void before(const Launch& launch) override;
  void after(const Launch& launch) override;

  // Total seconds of all ops so far, after the device has finished them.
  double seconds();
  // The totals per op kind, divided by the number of steps.
  std::map<OpKind, OpTime> per_step(int steps);

 private:
  struct Timed {
    Queue* queue;
    OpKind op;
    Event begin, end;
    double waited;  // by the host
  };
  void settle();

  const bool at_once_;
  std::map<OpKind, OpTime> times_;
  std::vector<Timed> timed_;  // not read yet
  Event begin_;
  double waited_ = 0;  // before the current op
};

bool is_linear(OpKind op);

// Creates a micro-batch of random tokens; with packed predictions, as many as the model expects.
Batch random_batch(const Config& config, const BuildOptions& build);

double median(std::vector<double> values);
double mean(const std::vector<double>& values);

}  // namespace trireme
