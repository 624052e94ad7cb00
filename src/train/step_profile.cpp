// Engines on random tokens, with observers of ops and messages.
#include "train/step_profile.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "backend/device.h"
#include "base/portable_math.h"
#include "comm/wait_time.h"
#include "runtime/devices.h"
#include "train/engine/active_trace.h"
#include "train/engine/engine.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// Called on any thread that detects the end of an operation.
class MessageTimes : public OperationListener {
 public:
  void completed(const std::string& group, const Label&, std::int64_t sent_bytes, Time begin,
                 Time end) override {
    const std::lock_guard lock(mutex_);
    MessageTime& time = times_[group];
    time.group = group;
    ++time.calls;
    time.sent_bytes += static_cast<double>(sent_bytes);
    time.seconds += std::chrono::duration<double>(end - begin).count();
  }
  std::vector<MessageTime> per_step(int steps) const {
    const std::lock_guard lock(mutex_);
    std::vector<MessageTime> all;
    for (auto [group, time] : times_) {
      time.calls /= steps;
      time.sent_bytes /= steps;
      time.seconds /= steps;
      all.push_back(time);
    }
    std::ranges::sort(all, std::greater(), &MessageTime::seconds);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, MessageTime> times_;
};

// Writes each op to the trace, nested in its pass.
class OpSpans : public Observer {
 public:
  OpSpans(const Engine& engine, Trace& trace) : engine_(engine), trace_(trace) {}
  void begin(const Stage& stage, const PassCall&) override {
    for (int c = 0; c < engine_.chunks(); ++c)
      if (&engine_.stage(c) == &stage) chunk_ = c;
  }
  void before(const Launch&) override { begin_ = Clock::now(); }
  void after(const Launch& launch) override {
    launch.queue.synchronize();
    trace_.computed(definition(launch.node.op).name, chunk_, -1, begin_, Clock::now());
  }

 private:
  const Engine& engine_;
  Trace& trace_;
  int chunk_ = 0;
  Clock::time_point begin_;
};

// Removes the listener from the transport, however a step ends.
class Listening {
 public:
  Listening(Transport& transport, OperationListener& listener) : transport_(transport) {
    transport_.set_listener(&listener);
  }
  ~Listening() { transport_.set_listener(nullptr); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  Transport& transport_;
};

class Profiler {
 public:
  Profiler(const Config& config, Transport& transport)
      : transport_(transport),
        numerics_(config.parallel.numerics == Numerics::portable),
        build_(build_options(config)),
        device_(device_of(config.run.device)),
        batch_(random_batch(config, build_)),
        engine_(config, build_, options_of(device_),
                {transport.place().rank, transport.place().size}) {
    const double global = static_cast<double>(global_batch_size(config, transport.place().size));
    input_.micro_batches = static_cast<std::int64_t>(global) /
                           (config.train.micro_batch_size * engine_.mesh().degrees().dp());
    input_.lr = 1e-5;
    input_.clip_grad = config.optimizer.clip_grad;
    result_.samples = global;
    result_.tokens = global * static_cast<double>(config.model.seq_length);
    result_.flops = result_.tokens * training_flops_per_token(config.model);
    result_.pipeline_rank = engine_.mesh().place_of(transport.place().rank).pp;
    result_.memory = planned_memory(engine_, config);
    ProfilerRange::open_library();
    engine_.allocate(&transport);
    engine_.initialize();
  }

  StepProfile run(int steps, bool trace) {
    step(nullptr);
    const bool apart = device_.target().device != DeviceKind::cpu;
    std::vector<double> seconds, waited, rest;
    for (int s = 0; apart && s < steps; ++s) seconds.push_back(step(nullptr).seconds);
    OpTimes ops(device_);
    MessageTimes messages;
    {
      const Listening listening(transport_, messages);
      for (int s = 0; s < steps; ++s) {
        const double before = ops.seconds();
        const Step one = step(&ops);
        if (!apart) seconds.push_back(one.seconds);
        waited.push_back(one.waited);
        rest.push_back(std::max(0.0, one.seconds - one.waited - (ops.seconds() - before)));
      }
    }
    // Means, as for the ops, so that the parts add up to the step.
    result_.seconds = mean(seconds);
    result_.waited = mean(waited);
    result_.rest = mean(rest);
    for (const auto& [op, time] : ops.per_step(steps)) result_.ops.push_back(time);
    std::ranges::sort(result_.ops, std::greater(), &OpTime::seconds);
    result_.messages = messages.per_step(steps);
    record(trace);
    result_.peak_resident_bytes = peak_resident_bytes();
    return std::move(result_);
  }

 private:
  struct Step {
    double seconds, waited;
  };

  static StageOptions options_of(Device& device) {
    StageOptions options;
    options.device = &device;
    return options;
  }
  // All ranks start together, so that none waits for another's work between steps.
  Step step(Observer* observer) {
    transport_.world().barrier("the begin of a profiled step").wait();
    const double waited = seconds_waited();
    const Clock::time_point begin = Clock::now();
    engine_.train_step(
        input_, [&](std::int64_t) { return &batch_; }, observer);
    device_.queue().synchronize();
    return {std::chrono::duration<double>(Clock::now() - begin).count(), seconds_waited() - waited};
  }
  // Runs one more step, to record memory in flight and the trace.
  void record(bool with_ops) {
    std::optional<OpSpans> spans;
    ActiveTrace active(transport_.place().rank, [&](Trace* trace) {
      engine_.set_trace(trace);
      transport_.set_listener(trace);
      spans.reset();
      if (trace) spans.emplace(engine_, *trace);
    });
    if (!with_ops) spans.reset();
    const Clock::time_point begin = Clock::now();
    result_.in_flight_seconds = step(spans ? &*spans : nullptr).seconds;
    for (const Trace::Held& held : active.held())
      result_.in_flight.push_back(
          {std::chrono::duration<double>(held.at - begin).count(), held.bytes});
    if (with_ops) result_.trace = active.json();
  }

  Transport& transport_;
  const math::Use numerics_;
  const BuildOptions build_;
  Device& device_;
  const Batch batch_;
  Engine engine_;
  StepInput input_;
  StepProfile result_;
};

}  // namespace

StepProfile profile_step(const Config& config, int steps, bool trace, Transport& transport) {
  return Profiler(config, transport).run(steps, trace);
}

}  // namespace trireme
