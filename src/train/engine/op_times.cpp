// Timed events around each launch, and random tokens.
#include "train/engine/op_times.h"

#include <algorithm>
#include <numeric>

#include "backend/device.h"
#include "base/random.h"
#include "comm/wait_time.h"

namespace trireme {

OpTimes::OpTimes(const Device& device) : at_once_(device.target().device == DeviceKind::cpu) {}

void OpTimes::before(const Launch& launch) {
  waited_ = seconds_waited();
  launch.queue.record_timed(begin_);
}

void OpTimes::after(const Launch& launch) {
  Timed timed{&launch.queue, launch.node.op, begin_, {}, 0};
  launch.queue.record_timed(timed.end);
  if (at_once_) timed.waited = seconds_waited() - waited_;
  timed_.push_back(std::move(timed));
  const Cost cost = cost_of(launch.graph, launch.node);
  OpTime& time = times_[launch.node.op];
  ++time.calls;
  time.flops += cost.flops;
  time.bytes += cost.bytes;
}

void OpTimes::settle() {
  for (const Timed& timed : timed_)
    times_[timed.op].seconds += timed.queue->seconds_between(timed.begin, timed.end) - timed.waited;
  timed_.clear();
}

double OpTimes::seconds() {
  settle();
  double sum = 0;
  for (const auto& [op, time] : times_) sum += time.seconds;
  return sum;
}

std::map<OpKind, OpTime> OpTimes::per_step(int steps) {
  settle();
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
