// Times each kind of op in training steps on random tokens: for `trireme bench` and `trireme
// profile`.
#pragma once

#include <chrono>
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

// Waits for each launch: what a GPU does between two of them, and the overlap of queues, it cannot
// see. Waits for other ranks within an op do not count.
class OpTimes : public Observer {
 public:
  void before(const Launch&) override;
  void after(const Launch& launch) override;

  double seconds() const;  // of all ops so far
  // Per step and kind, over this many steps.
  std::map<OpKind, OpTime> per_step(int steps) const;

 private:
  std::map<OpKind, OpTime> times_;
  std::chrono::steady_clock::time_point begin_;
  double waited_ = 0;  // before the op at hand
};

bool is_linear(OpKind op);

// A micro-batch of tokens drawn at random; with packed predictions as many as the model expects.
Batch random_batch(const Config& config, const BuildOptions& build);

double median(std::vector<double> values);
double mean(const std::vector<double>& values);

}  // namespace trireme
