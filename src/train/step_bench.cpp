// Runs an engine on random tokens with a timing observer.
#include "train/step_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "backend/cpu/gemm_bench.h"
#include "backend/cpu/kernels.h"
#include "backend/device.h"
#include "base/portable_math.h"
#include "runtime/devices.h"
#include "train/engine/device_products.h"
#include "train/engine/engine.h"
#include "train/engine/op_times.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

// Counts the linear products of one micro-batch by shape.
class ProductCounter : public Observer {
 public:
  using Key = std::tuple<int, std::int64_t, std::int64_t, std::int64_t>;
  void after(const Launch& i) override {
    if (!is_linear(i.node.op)) return;
    const auto shape_of = [&](ValueId id) { return i.graph.value(id).shape; };
    const Shape a = shape_of(i.node.inputs[0]), b = shape_of(i.node.inputs[1]);
    if (i.node.op == OpKind::linear)
      ++counts[{0, a[0], b[1], b[0]}];
    else if (i.node.op == OpKind::linear_input_grad)
      ++counts[{1, a[0], b[1], b[0]}];
    else
      ++counts[{2, a[0], b[1], a[1]}];
  }
  std::map<Key, int> counts;
};

// Time of the products alone on the CPU: measures each shape once.
double ceiling_seconds(DType compute, const std::map<ProductCounter::Key, int>& counts) {
  std::vector<LinearShape> shapes;
  for (const auto& [key, count] : counts) {
    const LinearShape shape{std::get<1>(key), std::get<2>(key), std::get<3>(key)};
    const auto same = [&](const LinearShape& s) {
      return s.rows == shape.rows && s.in == shape.in && s.out == shape.out;
    };
    if (std::none_of(shapes.begin(), shapes.end(), same)) shapes.push_back(shape);
  }
  const auto timings =
      with_compute_type(compute, [&]<class T>(T) { return cpu::time_linear_products<T>(shapes); });
  double seconds = 0;
  for (const auto& [key, count] : counts) {
    for (const cpu::GemmTiming& timing : timings) {
      if (static_cast<int>(timing.product) == std::get<0>(key) &&
          timing.shape.rows == std::get<1>(key) && timing.shape.in == std::get<2>(key) &&
          timing.shape.out == std::get<3>(key)) {
        seconds += count * timing.seconds;
      }
    }
  }
  return seconds;
}

double ceiling_seconds(Device& device, DType compute,
                       const std::map<ProductCounter::Key, int>& counts) {
  if (device.target().device == DeviceKind::cpu) return ceiling_seconds(compute, counts);
  double seconds = 0;
  for (const auto& [key, count] : counts) {
    const auto& [product, rows, in, out] = key;
    seconds += count * product_seconds(device, compute, static_cast<Product>(product),
                                       LinearShape{rows, in, out});
  }
  return seconds;
}

}  // namespace

StepBench bench_step(const Config& config, int steps, bool products_alone,
                     const std::function<void(const std::string&)>& tell) {
  const auto say = [&](const std::string& what) {
    if (tell) tell(what);
  };
  const math::Use numerics{config.parallel.numerics == Numerics::portable};
  const BuildOptions build = build_options(config);
  Device& device = device_of(config.run.device);
  const bool on_cpu = device.target().device == DeviceKind::cpu;
  StageOptions stage;
  stage.device = &device;
  Engine engine(config, build, stage);
  engine.allocate();
  engine.initialize();

  const std::int64_t rows = config.train.micro_batch_size * config.model.seq_length;
  const std::int64_t micro_batches =
      std::max<std::int64_t>(1, config.train.global_batch_size / config.train.micro_batch_size);
  const Batch batch = random_batch(config, build);
  StepInput input;
  input.micro_batches = micro_batches;
  input.lr = 1e-5;
  input.clip_grad = config.optimizer.clip_grad;

  StepBench bench;
  bench.tokens = rows * micro_batches;
  ProductCounter products;
  say("a step to warm up");
  engine.train_step(
      input, [&](std::int64_t) { return &batch; }, &products);
  OpTimes times(device);
  std::vector<double> seconds, outside;
  // Times steps without the profiling observer if its waits would slow them down.
  for (int s = 0; s < (on_cpu ? 0 : steps); ++s) {
    say(fmt::format("step {} of {}", s + 1, steps));
    const Clock::time_point begin = Clock::now();
    engine.train_step(input, [&](std::int64_t) { return &batch; });
    device.queue().synchronize();
    seconds.push_back(seconds_between(begin, Clock::now()));
  }
  for (int s = 0; s < steps; ++s) {
    say(fmt::format("step {} of {}, op by op", s + 1, steps));
    const double before = times.seconds();
    const Clock::time_point begin = Clock::now();
    engine.train_step(
        input, [&](std::int64_t) { return &batch; }, &times);
    device.queue().synchronize();
    const double profiled = seconds_between(begin, Clock::now());
    if (on_cpu) seconds.push_back(profiled);
    outside.push_back(profiled - (times.seconds() - before));
  }
  bench.seconds = median(seconds);
  bench.optimizer_seconds = median(outside);
  for (const auto& [op, time] : times.per_step(steps)) {
    if (is_linear(op)) {
      bench.linear_flops += time.flops;
      bench.linear_seconds += time.seconds;
    } else {
      bench.attention_flops += time.flops;
    }
    bench.ops.push_back(time);
  }
  std::sort(bench.ops.begin(), bench.ops.end(),
            [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  bench.planned_bytes = engine.memory().total();
  bench.peak_resident_bytes = peak_resident_bytes();
  if (products_alone) say("the step's matrix products alone");
  if (products_alone)
    bench.ceiling_seconds = ceiling_seconds(device, build.compute, products.counts);
  return bench;
}

}  // namespace trireme
