// Tests that the measured idle time of pipelines matches the checker's figure. Passes sleep for
// equal times, so the result does not depend on the number of cores.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "comm/local.h"
#include "named.h"
#include "train/engine/engine.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int ranks = 4;
constexpr std::int64_t micro_batches = 8;
constexpr std::chrono::milliseconds shortest_pass{30};  // far above what the tiny model computes

// Makes each pass over a rank's layers take `pass_time`, and both gradient passes twice that.
class Waits : public Observer {
 public:
  Waits(std::chrono::milliseconds pass_time, int chunks, bool split)
      : unit_(pass_time / chunks), split_(split) {}
  void begin(const Stage&, const PassCall& call) override {
    const auto duration = call.pass == Pass::backward && !split_ ? 2 * unit_ : unit_;
    const Clock::time_point begin = Clock::now();
    if (busy == Clock::duration::zero()) first_begin = begin;
    std::this_thread::sleep_until(begin + duration);
    last_end = Clock::now();
    busy += duration;
  }
  void after(const Launch&) override {}

  Clock::duration busy{};
  Clock::time_point first_begin, last_end;

 private:
  std::chrono::microseconds unit_;
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
IdleShare idle_share(const std::string& schedule, std::chrono::milliseconds pass_time) {
  const Config config = config_for(schedule);
  const bool split = splits_backward(named(schedule));
  std::mutex mutex;
  Clock::duration busy{};
  Clock::time_point begin = Clock::time_point::max(), end{};
  double expected = 0;
  run_local_ranks(ranks, {}, [&](Transport& transport) {
    const int rank = transport.place().rank;
    Engine engine(config, build_options(config), {}, {rank, ranks});
    engine.allocate(&transport);
    engine.initialize();
    Waits waits(pass_time, engine.chunks(), split);
    Batch batch(1, 8);
    std::fill(batch.tokens.begin(), batch.tokens.end(), 1);
    batch.targets = batch.tokens;
    StepInput input;
    input.micro_batches = micro_batches;
    transport.world().barrier("begin together").wait();
    engine.train_step(
        input, [&](std::int64_t) { return &batch; }, &waits);
    const std::lock_guard lock(mutex);
    busy += waits.busy;
    begin = std::min(begin, waits.first_begin);
    end = std::max(end, waits.last_end);
    expected = engine.schedule(micro_batches).report.bubble;
  });
  return {1 - std::chrono::duration<double>(busy).count() /
                  (ranks * std::chrono::duration<double>(end - begin).count()),
          expected};
}

class Bubble : public testing::TestWithParam<std::string> {};

TEST_P(Bubble, IdleTimeIsWhatTheCheckerSays) {
  // Other load on the machine can only increase the waiting, so the minimum over several steps
  // shows what the schedule does. Longer passes reduce the relative effect of such delays.
  constexpr double overhead = 0.04;  // fraction of the step: tiny passes, messages
  double measured = 1, expected = 0;
  for (int step = 0; step < 8 && measured > expected + overhead; ++step) {
    const IdleShare idle = idle_share(GetParam(), shortest_pass * (1 + step));
    measured = std::min(measured, idle.measured);
    expected = idle.expected;
  }
  RecordProperty("expected_percent", std::to_string(100 * expected));
  RecordProperty("measured_percent", std::to_string(100 * measured));
  std::printf("%s: bubble %.1f%% measured, %.1f%% by the checker\n", GetParam().c_str(),
              100 * measured, 100 * expected);
  EXPECT_GT(expected, 0.01);
  EXPECT_GE(measured, expected - 0.01);
  EXPECT_LE(measured, expected + overhead);
}

INSTANTIATE_TEST_SUITE_P(SlowSchedules, Bubble,
                         testing::Values("gpipe", "1f1b", "interleaved", "zb1p", "zbv", "vhalf"),
                         [](const auto& info) {
                           return info.param == "1f1b" ? std::string("OneFOneB") : info.param;
                         });

}  // namespace
}  // namespace trireme
