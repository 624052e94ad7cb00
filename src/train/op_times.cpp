// A clock around each launch, and tokens without a meaning.
#include "train/op_times.h"

#include <algorithm>
#include <numeric>

#include "backend/device.h"
#include "base/random.h"
#include "comm/wait_time.h"

namespace trireme {

void OpTimes::before(const Launch&) {
  waited_ = seconds_waited();
  begin_ = std::chrono::steady_clock::now();
}

void OpTimes::after(const Launch& launch) {
  launch.queue.synchronize();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin_;
  const Cost cost = cost_of(launch.graph, launch.node);
  OpTime& time = times_[launch.node.op];
  ++time.calls;
  time.seconds += taken.count() - (seconds_waited() - waited_);
  time.flops += cost.flops;
  time.bytes += cost.bytes;
}

double OpTimes::seconds() const {
  double sum = 0;
  for (const auto& [op, time] : times_) sum += time.seconds;
  return sum;
}

std::map<OpKind, OpTime> OpTimes::per_step(int steps) const {
  std::map<OpKind, OpTime> result = times_;
  for (auto& [op, time] : result) {
    time.op = definition(op).name;
    time.calls /= steps;
    time.seconds /= steps;
    time.flops /= steps;
    time.bytes /= steps;
  }
  return result;
}

bool is_linear(OpKind op) {
  return op == OpKind::linear || op == OpKind::linear_input_grad ||
         op == OpKind::linear_weight_grad;
}

Batch random_batch(const Config& config, const BuildOptions& build) {
  Batch batch(config.train.micro_batch_size, config.model.seq_length);
  const std::int64_t rows = config.train.micro_batch_size * config.model.seq_length;
  const auto token = [&](std::uint64_t site, std::int64_t r) {
    return static_cast<std::int32_t>(uniform(1, site, r) *
                                     static_cast<double>(config.model.vocab_size));
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    batch.tokens[r] = token(0, r);
    batch.targets[r] = token(1, r);
  }
  for (std::int64_t r = 0; build.predictions > 0 && r < rows; ++r)
    batch.loss_weights[r] = r % config.model.seq_length < build.predictions;
  return batch;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace trireme
