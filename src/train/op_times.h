// Times each kind of op in training steps on random tokens: for `trireme bench` and `trireme
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

// By the clock of the queue that runs an op: nothing waits, and a step takes as long as without it.
// Waits of the host for other ranks within an op do not count on a device that does everything at
// once.
class OpTimes : public Observer {
 public:
  explicit OpTimes(const Device& device);
  void before(const Launch& launch) override;
  void after(const Launch& launch) override;

  // Of all ops so far, which the device has finished.
  double seconds();
  // The same per step and kind, over this many steps.
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
  double waited_ = 0;  // before the op at hand
};

bool is_linear(OpKind op);

// A micro-batch of tokens drawn at random; with packed predictions as many as the model expects.
Batch random_batch(const Config& config, const BuildOptions& build);

double median(std::vector<double> values);
double mean(const std::vector<double>& values);

}  // namespace trireme
