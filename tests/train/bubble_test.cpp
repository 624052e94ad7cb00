// Tests that the idle time of pipelines matches the checker's figure, on a clock of the test's own:
// a pass advances its rank's clock by the time that the checker has for it, and a message that a
// rank waits for advances it to the time at which both sides were ready. The load of the machine
// plays no part.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "named.h"
#include "train/engine/engine.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

constexpr int ranks = 4;
constexpr std::int64_t micro_batches = 8;

// The time of one rank.
struct Clock {
  double now = 0;
};

// Waiting for the operation also waits for its clocks.
class Timed final : public Work::Pending {
 public:
  Timed(Work operation, Work stamps, Clock& clock, const std::vector<double>& begun)
      : operation_(std::move(operation)),
        stamps_(std::move(stamps)),
        clock_(clock),
        begun_(begun) {}

  bool done() override { return operation_.done(); }
  void wait() override {
    operation_.wait();
    stamps_.wait();
    for (const double time : begun_) clock_.now = std::max(clock_.now, time);
  }
  void detach() override {}

 private:
  Work operation_, stamps_;
  Clock& clock_;
  const std::vector<double>& begun_;  // when each rank has called the operation
};

// Tells the other side of each message, in a message of its own, when this side was ready. A group
// for each direction keeps these in the order of the messages that they belong to.
class TimedCommunicator final : public Communicator {
 public:
  TimedCommunicator(std::unique_ptr<Communicator> real, std::unique_ptr<Communicator> with_data,
                    std::unique_ptr<Communicator> against_data, Clock& clock)
      : Communicator(real->world_ranks(), real->rank(), real->name()),
        real_(std::move(real)),
        with_data_(std::move(with_data)),
        against_data_(std::move(against_data)),
        clock_(clock) {}

  Work all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction,
                  Label label) override {
    return together(real_->all_reduce(data, count, dtype, reduction, label));
  }
  Work reduce_scatter(const void* src, void* dst, std::int64_t count, DType dtype,
                      Reduction reduction, Label label) override {
    return together(real_->reduce_scatter(src, dst, count, dtype, reduction, label));
  }
  Work all_gather(const void* src, void* dst, std::int64_t count, DType dtype,
                  Label label) override {
    return together(real_->all_gather(src, dst, count, dtype, label));
  }
  Work broadcast(void* data, std::int64_t count, DType dtype, int root, Label label) override {
    return together(real_->broadcast(data, count, dtype, root, label));
  }
  Work all_to_all(const void* src, void* dst, std::int64_t count, DType dtype,
                  Label label) override {
    return together(real_->all_to_all(src, dst, count, dtype, label));
  }
  Work barrier(Label label) override { return together(real_->barrier(label)); }
  Work exchange(std::span<const Transfer> transfers, Label label) override {
    TRIREME_CHECK(transfers.size() == 1);
    const Transfer& one = transfers.front();
    const bool sends = one.direction == Transfer::Direction::send;
    Communicator& own = sends ? *with_data_ : *against_data_;
    Communicator& others = sends ? *against_data_ : *with_data_;
    std::vector<double>& begun = times_.emplace_back(2, clock_.now);
    own.send(&begun[0], 1, DType::f64, one.peer, "this rank's clock");
    return timed(real_->exchange(transfers, label),
                 others.receive(&begun[1], 1, DType::f64, one.peer, "the other rank's clock"),
                 begun);
  }

 private:
  // A collective operation ends when its last rank has called it.
  Work together(Work operation) {
    std::vector<double>& begun = times_.emplace_back(1, clock_.now);
    return timed(
        std::move(operation),
        with_data_->all_reduce(begun.data(), 1, DType::f64, Reduction::max, "the latest clock"),
        begun);
  }
  Work timed(Work operation, Work stamps, const std::vector<double>& begun) {
    return Work(std::make_unique<Timed>(std::move(operation), std::move(stamps), clock_, begun));
  }

  std::unique_ptr<Communicator> real_, with_data_, against_data_;
  Clock& clock_;
  std::deque<std::vector<double>> times_;  // of all operations: some are never waited for
};

class TimedTransport final : public Transport {
 public:
  TimedTransport(Transport& real, Clock& clock) : real_(real), clock_(clock) {}

  const Place& place() const override { return real_.place(); }
  Communicator& world() override { return real_.world(); }
  std::unique_ptr<Communicator> group(std::vector<int> world_ranks, std::string name) override {
    auto real = real_.group(world_ranks, name);
    auto with_data = real_.group(world_ranks, name + ", clocks with the data");
    auto against_data = real_.group(std::move(world_ranks), name + ", clocks against the data");
    return std::make_unique<TimedCommunicator>(std::move(real), std::move(with_data),
                                               std::move(against_data), clock_);
  }
  void set_listener(OperationListener* listener) override { real_.set_listener(listener); }
  void set_activity(ActivitySource source) override { real_.set_activity(std::move(source)); }
  void set_last_output(LastOutput words) override { real_.set_last_output(std::move(words)); }
  void leave() override { real_.leave(); }
  void abort(int exit_code, const std::string& message) override {
    real_.abort(exit_code, message);
  }

 private:
  Transport& real_;
  Clock& clock_;
};

// Makes each pass over a rank's layers take a unit of time, and both gradient passes two.
class Passes : public Observer {
 public:
  Passes(Clock& clock, int chunks, bool split)
      : clock_(clock), unit_(1.0 / chunks), split_(split) {}
  void begin(const Stage&, const PassCall& call) override {
    first_begin = std::min(first_begin, clock_.now);
    const double duration = call.pass == Pass::backward && !split_ ? 2 * unit_ : unit_;
    busy += duration;
    last_end = clock_.now += duration;
  }
  void after(const Launch&) override {}

  double busy = 0, first_begin = std::numeric_limits<double>::infinity(), last_end = 0;

 private:
  Clock& clock_;
  double unit_;
  bool split_;
};

Config config_for(const std::string& schedule) {
  return parse_config(
      R"(
[run]
precision = "fp32"
[model]
family = "gpt"
num_layers = 8
hidden_size = 16
num_heads = 2
seq_length = 8
vocab_size = 32
[train]
micro_batch_size = 1
global_batch_size = 8
iters = 1
[optimizer]
lr = 1e-3
)",
      "bubble test",
      {"parallel.pp=4", "parallel.schedule=" + schedule,
       schedule == "interleaved" ? "parallel.virtual_stages=2" : "parallel.virtual_stages=1"});
}

struct IdleShare {
  double measured, expected;
};

// Returns the idle share of one step.
IdleShare idle_share(const std::string& schedule) {
  const Config config = config_for(schedule);
  const bool split = splits_backward(named(schedule));
  std::mutex mutex;
  double busy = 0, begin = std::numeric_limits<double>::infinity(), end = 0, expected = 0;
  run_local_ranks(ranks, {}, [&](Transport& real) {
    Clock clock;
    TimedTransport transport(real, clock);
    const int rank = transport.place().rank;
    Engine engine(config, build_options(config), {}, {rank, ranks});
    engine.allocate(&transport);
    engine.initialize();
    Passes passes(clock, engine.chunks(), split);
    Batch batch(1, 8);
    std::fill(batch.tokens.begin(), batch.tokens.end(), 1);
    batch.targets = batch.tokens;
    StepInput input;
    input.micro_batches = micro_batches;
    engine.train_step(
        input, [&](std::int64_t) { return &batch; }, &passes);
    transport.world().barrier("no clock is needed any more").wait();
    const std::lock_guard lock(mutex);
    busy += passes.busy;
    begin = std::min(begin, passes.first_begin);
    end = std::max(end, passes.last_end);
    expected = engine.schedule(micro_batches).report.bubble;
  });
  return {1 - busy / (ranks * (end - begin)), expected};
}

class Bubble : public testing::TestWithParam<std::string> {};

TEST_P(Bubble, IdleTimeIsWhatTheCheckerSays) {
  const IdleShare idle = idle_share(GetParam());
  EXPECT_GT(idle.expected, 0.01);
  EXPECT_NEAR(idle.measured, idle.expected, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Schedules, Bubble,
                         testing::Values("gpipe", "1f1b", "interleaved", "zb1p", "zbv", "vhalf"),
                         [](const auto& info) {
                           return info.param == "1f1b" ? std::string("OneFOneB") : info.param;
                         });

}  // namespace
}  // namespace trireme
