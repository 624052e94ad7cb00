// Measures products, memory and messages separately; then a full step, for the remaining figures.
#include "plan/measure_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <vector>

#include "backend/cpu/gemm_bench.h"
#include "backend/cpu/isa.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "model/transformer.h"
#include "plan/time_plan.h"
#include "runtime/memory.h"
#include "train/engine/op_times.h"
#include "train/step_bench.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// A model whose step takes seconds on two cores and uses every kind of kernel.
constexpr const char* reference_step = R"(
[model]
family = "gpt"
num_layers = 4
hidden_size = 512
num_heads = 8
seq_length = 512
vocab_size = 8192
[train]
micro_batch_size = 2
global_batch_size = 4
iters = 1
[optimizer]
lr = 1e-4
)";
constexpr int reference_steps = 2, reference_rounds = 3;

double seconds_of(const std::function<void()>& body) {
  const Clock::time_point begin = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Measurement {
 public:
  Measurement(Transport& transport, std::function<void(const std::string&)> tell)
      : world_(transport.world()), ranks_(world_.size()), tell_(std::move(tell)) {
    if (transport.place().local_size != ranks_)
      fail_input(
          "bench machine measures one node, but these {} ranks are on several: start it on one of "
          "them, and add the figures of the network between them by hand ([network] in "
          "docs/time.md)",
          ranks_);
  }

  Machine run() {
    machine_.name = "this machine";
    machine_.target = cpu::this_machine();
    machine_.target.threads = ThreadPool::global().size();
    MachineSpeed& speed = machine_.speed.emplace();
    speed.memory_bytes = static_cast<double>(machine_memory_bytes() / ranks_);
    speed.devices = ranks_;
    measure_products(speed);
    say("memory");
    measure_memory(speed);
    say("starts of kernels");
    measure_launches(speed);
    if (ranks_ > 1) say("messages between ranks");
    if (ranks_ > 1) measure_messages(speed);
    measure_steps(speed);
    return std::move(machine_);
  }

 private:
  void say(const std::string& what) const {
    if (tell_) tell_(what);
  }
  // Starts on all ranks at the same time; the slowest rank counts.
  double together(const std::function<double()>& seconds) {
    world_.barrier("a measurement").wait();
    double taken = seconds();
    world_.all_reduce(&taken, 1, DType::f64, Reduction::max, "a measurement").wait();
    return taken;
  }

  // Flops per second of forward products of a shape.
  template <class T>
  double product_rate(const LinearShape& shape) {
    const double seconds = together([&] {
      constexpr double seconds_each = 0.05;
      const std::array shapes = {shape};
      return cpu::time_linear_products<T>(shapes, seconds_each)[0].seconds;
    });
    return 2.0 * static_cast<double>(shape.rows * shape.in * shape.out) / seconds;
  }
  template <class T>
  double ceiling() {
    double best = 0;
    for (const LinearShape& shape :
         {LinearShape{1024, 1024, 1024}, LinearShape{2048, 512, 2048}, LinearShape{4096, 768, 768}})
      best = std::max(best, product_rate<T>(shape));
    return best;
  }

  // Tiles are irrelevant here: a product costs its flops, and more if it is shallow. Takes the best
  // of several alternating rounds: otherwise a short disturbance of the machine could make one type
  // look slow relative to the other.
  void measure_products(MachineSpeed& speed) {
    constexpr int rounds = 4;
    constexpr std::int64_t shallow = 64;
    double rate = 0;
    for (int round = 0; round < rounds; ++round) {
      say(fmt::format("matrix products, round {} of {}", round + 1, rounds));
      speed.bf16.ceiling = std::max(speed.bf16.ceiling, ceiling<bf16>());
      speed.fp32.ceiling = std::max(speed.fp32.ceiling, ceiling<float>());
      rate = std::max(rate, product_rate<float>({2048, shallow, 2048}));
    }
    speed.bf16.peak = speed.bf16.ceiling;
    speed.fp32.peak = speed.fp32.ceiling;
    speed.half_depth =
        std::clamp(shallow * (speed.fp32.ceiling / rate - 1), 0.0, static_cast<double>(shallow));
  }

  void measure_memory(MachineSpeed& speed) {
    constexpr std::int64_t count = std::int64_t{1} << 24;  // floats: 64 MiB, beyond caches
    std::vector<float> a(count, 1), b(count, 2), c(count, 3);
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) {
      times.push_back(together([&] {
        return seconds_of([&] {
          parallel_ranges(count, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t k = begin; k < end; ++k) a[k] = b[k] + 0.5F * c[k];
          });
        });
      }));
    }
    speed.memory_rate = 3.0 * sizeof(float) * count / median(times);
    speed.host_rate = speed.memory_rate;
  }

  void measure_launches(MachineSpeed& speed) {
    constexpr int times = 1000;
    speed.launch = together([&] {
      return seconds_of([&] {
               for (int i = 0; i < times; ++i)
                 parallel_for(ThreadPool::global().size(), [](auto) {});
             }) /
             times;
    });
  }

  double all_reduce_seconds(std::int64_t floats, int times) {
    std::vector<float> data(static_cast<std::size_t>(floats));
    std::vector<double> taken;
    for (int i = 0; i < times; ++i) {
      taken.push_back(together([&] {
        return seconds_of([&] {
          world_.all_reduce(data.data(), floats, DType::f32, Reduction::sum, "a measurement")
              .wait();
        });
      }));
    }
    return median(taken);
  }

  double pair_seconds(std::int64_t floats) {
    const int peer = world_.rank() ^ 1;
    std::vector<float> out(static_cast<std::size_t>(floats)), in(out.size());
    return together([&] {
      return seconds_of([&] {
        if (peer >= ranks_) return;
        const std::array transfers = {
            Transfer{Transfer::Direction::send, peer, out.data(), floats, DType::f32},
            Transfer{Transfer::Direction::receive, peer, in.data(), floats, DType::f32}};
        world_.exchange(transfers, "a measurement").wait();
      });
    });
  }

  void measure_messages(MachineSpeed& speed) {
    constexpr std::int64_t large = 8 << 20, small = 1 << 16;  // floats
    const auto sent = [&](std::int64_t floats) {
      return all_reduce_traffic(sizeof(float) * static_cast<double>(floats), ranks_);
    };
    speed.node_latency = std::min(0.1, all_reduce_seconds(2, 101));
    const double seconds = all_reduce_seconds(large, 5) - speed.node_latency;
    const double rate = sent(large) / std::max(seconds, 1e-9);
    speed.bus.push_back({ranks_, rate});
    const double of_small = all_reduce_seconds(small, 21) - speed.node_latency;
    speed.node_half =
        std::clamp(sizeof(float) * small * (of_small * rate / sent(small) - 1), 0.0, 1e10);
    pair_seconds(large);
    speed.pair = sizeof(float) * large / pair_seconds(large);
  }

  // The reference step in one precision: its median time, and the times of its ops.
  struct ReferenceStep {
    Config config;
    std::vector<double> seconds;
    std::vector<OpTime> ops;

    // Flops per second of an op in its fastest, least disturbed round.
    double rate(std::string_view op) const {
      double best = 0;
      for (const OpTime& time : ops)
        if (time.op == op) best = std::max(best, time.flops / time.seconds);
      if (best == 0) fail("a step of the reference model does not contain the op '{}'", op);
      return best;
    }
  };

  // Measures the efficiency of attention and of gradient products, and the slowdown of all kernels
  // within a step. The precisions alternate, as for products.
  void measure_steps(MachineSpeed& speed) {
    std::array<ReferenceStep, 2> steps;
    constexpr std::array precisions = {"bf16", "fp32"};
    for (std::size_t i = 0; i < steps.size(); ++i)
      steps[i].config = parse_config(reference_step, "the step that is measured",
                                     {fmt::format("run.precision={}", precisions[i])});
    for (int round = 0; round < reference_rounds; ++round) {
      say(fmt::format("steps of a small model, round {} of {}", round + 1, reference_rounds));
      for (ReferenceStep& step : steps) {
        StepBench bench;
        step.seconds.push_back(together([&] {
          bench = bench_step(step.config, reference_steps, false);
          return bench.seconds;
        }));
        step.ops.insert(step.ops.end(), bench.ops.begin(), bench.ops.end());
      }
    }
    const auto& [narrow, wide] = steps;
    speed.attention = std::clamp(narrow.rate("attention") / speed.bf16.ceiling, 0.01, 1.0);
    speed.attention_grad =
        std::clamp(narrow.rate("attention_grad") / speed.bf16.ceiling, 0.01, 1.0);
    for (const auto& [rate, step] : {std::pair{&speed.bf16, &narrow}, {&speed.fp32, &wide}}) {
      const double forward = step->rate("linear");
      rate->input_grad = std::clamp(step->rate("linear_input_grad") / forward, 0.1, 10.0);
      rate->weight_grad = std::clamp(step->rate("linear_weight_grad") / forward, 0.1, 10.0);
    }
    const auto efficiency = [&](const ReferenceStep& step) {
      const double modeled = plan_time(plan_layout(step.config, 1, machine_.target), step.config,
                                       machine_, find_stack("trireme"), 1)
                                 .seconds;
      return std::clamp(modeled / median(step.seconds), 0.05, 2.0);
    };
    speed.fits.push_back(
        {"trireme", efficiency(narrow),
         fmt::format("a step of a small GPT, {:.3f} s in bf16 and {:.3f} s in fp32",
                     median(narrow.seconds), median(wide.seconds)),
         efficiency(wide)});
  }

  Communicator& world_;
  int ranks_;
  std::function<void(const std::string&)> tell_;
  Machine machine_;
};

}  // namespace

Machine measure_machine(Transport& transport, const std::function<void(const std::string&)>& tell) {
  return Measurement(transport, tell).run();
}

std::string machine_file(const Machine& machine) {
  TRIREME_CHECK(machine.speed.has_value());
  const MachineSpeed& s = *machine.speed;
  std::string text = fmt::format(
      "# Measured by `trireme bench machine`, {}.\n"
      "device = \"cpu\"\nisa = \"{}\"\n",
      s.devices == 1 ? "one rank" : fmt::format("{} ranks concurrently", s.devices),
      cpu::name_of(machine.target.isa));
  if (machine.target.bf16_dot_products && machine.target.isa != cpu::Isa::amx)
    text += "bf16_dot_products = true\n";
  text += fmt::format(
      "threads = {}\n"
      "\n"
      "[memory]\n"
      "bytes = {:.0f}\n"
      "rate = {:.3e}\n"
      "host_rate = {:.3e}\n"
      "\n"
      "[products]\n"
      "bf16_peak = {:.4e}  # best measured value; the nominal value is not known\n"
      "bf16_ceiling = {:.4e}\n"
      "bf16_input_grad = {:.3f}\n"
      "bf16_weight_grad = {:.3f}\n"
      "fp32_peak = {:.4e}\n"
      "fp32_ceiling = {:.4e}\n"
      "fp32_input_grad = {:.3f}\n"
      "fp32_weight_grad = {:.3f}\n"
      "units = 1\n"
      "half_depth = {:.1f}\n"
      "tiles = [[1, 1, 1.0]]\n"
      "\n"
      "[attention]\n"
      "forward = {:.3f}\n"
      "backward = {:.3f}\n"
      "\n"
      "[launch]\n"
      "device = {:.2e}\n"
      "host = 0\n",
      machine.target.threads, s.memory_bytes, s.memory_rate, s.host_rate, s.bf16.peak,
      s.bf16.ceiling, s.bf16.input_grad, s.bf16.weight_grad, s.fp32.peak, s.fp32.ceiling,
      s.fp32.input_grad, s.fp32.weight_grad, s.half_depth, s.attention, s.attention_grad, s.launch);
  if (s.devices > 1)
    text += fmt::format(
        "\n[node]\ndevices = {}\nbus = [[{}, {:.3e}]]\npair = {:.3e}\nlatency = {:.2e}\n"
        "half_size = {:.3e}\n",
        s.devices, s.bus[0].devices, s.bus[0].rate, s.pair, s.node_latency, s.node_half);
  for (const Fit& fit : s.fits)
    text +=
        fmt::format("\n[fitted.{}]\nefficiency = {:.3f}\nfp32_efficiency = {:.3f}\nfrom = \"{}\"\n",
                    fit.stack, fit.efficiency, fit.wide_efficiency, fit.from);
  return text;
}

}  // namespace trireme
