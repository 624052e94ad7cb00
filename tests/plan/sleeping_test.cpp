// Tests of a planned step's time against a measured one, on ranks whose passes sleep for the time
// of the model: the effects of schedule, messages and engine are real.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>

#include "base/thread_pool.h"
#include "comm/local.h"
#include "comm/wait_time.h"
#include "plan/small_config.h"
#include "plan/time_plan.h"
#include "runtime/stage.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// So slow that the small model's real computation and communication are negligible: a hundredth of
// a second or more per pass.
Machine slow_machine(int ranks) {
  Machine machine{"sleeping", cpu::this_machine(), MachineSpeed{}};
  MachineSpeed& speed = *machine.speed;
  speed.memory_bytes = 1e12;
  speed.memory_rate = speed.host_rate = 1e14;
  speed.bf16 = speed.fp32 = {2e6, 2e6};
  speed.tiles = {{1, 1, 1}};
  speed.devices = ranks;
  speed.bus = {{ranks, 1e13}};
  speed.pair = 1e13;
  return machine;
}

// Seconds of the passes of each chunk at a position.
using Seconds = std::map<std::pair<int, int>, double>;

Seconds seconds_of(const RankPlan& rank, const CostModel& costs) {
  Seconds seconds;
  for (const auto& [key, piece] : times_alone(rank.program, costs))
    if (!key.first_micro_batch) seconds[{key.chunk, key.pass}] += piece.compute;
  return seconds;
}

// A device that runs one pass after another, each for the time of the model: it sleeps for the rest
// after the real computation. Without a wait between two passes, the second starts when the first
// was scheduled to end, however late the sleeper wakes up.
class Sleeps : public Observer {
 public:
  Sleeps(Engine& engine, const Seconds& seconds) : engine_(engine), seconds_(seconds) {}
  void begin(const Stage& stage, const PassCall& call) override {
    int chunk = 0;
    while (&engine_.stage(chunk) != &stage) ++chunk;
    pass_ = {chunk, static_cast<int>(call.pass)};
    launched_ = 0;
    const auto found = seconds_.find(pass_);
    ASSERT_NE(found, seconds_.end());
    const bool continued = waited_ == seconds_waited();
    end_ = (continued ? end_ : Clock::now()) + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(found->second));
    if (!counting_) busy += found->second;
  }
  void after(const Launch&) override {
    int& launches = launches_[pass_];
    ++launched_;
    if (counting_) {
      launches = std::max(launches, launched_);
    } else if (launched_ == launches) {
      std::this_thread::sleep_until(end_);
      waited_ = seconds_waited();
    }
  }
  // Before this, it only counts what a pass launches.
  void start() { counting_ = false; }

  double busy = 0;

 private:
  Engine& engine_;
  const Seconds& seconds_;
  std::map<std::pair<int, int>, int> launches_;
  std::pair<int, int> pass_;
  int launched_ = 0;
  bool counting_ = true;
  double waited_ = -1;
  Clock::time_point end_;
};

struct Step {
  double seconds = 0, bubble = 0;
};

Step measured(const Config& config, int ranks, const std::vector<Seconds>& seconds) {
  std::mutex mutex;
  double busy = 0;
  Clock::time_point begin = Clock::time_point::max(), end{};
  run_local_ranks(ranks, {.timeout_s = 60}, [&](Transport& transport) {
    const int rank = transport.place().rank;
    Engine engine(config, build_options(config), {}, {rank, ranks});
    engine.allocate(&transport);
    engine.initialize();
    const int position = rank / (ranks / static_cast<int>(config.parallel.pp));
    Sleeps sleeps(engine, seconds[static_cast<std::size_t>(position)]);
    Batch batch(config.train.micro_batch_size, config.model.seq_length);
    std::fill(batch.tokens.begin(), batch.tokens.end(), 1);
    batch.targets = batch.tokens;
    StepInput input;
    input.micro_batches = config.train.global_batch_size /
                          (config.train.micro_batch_size * engine.mesh().degrees().dp());
    const auto step = [&] {
      engine.train_step(
          input, [&](std::int64_t) { return &batch; }, &sleeps);
    };
    step();
    sleeps.start();
    transport.world().barrier("begin together").wait();
    const Clock::time_point first = Clock::now();
    step();
    const Clock::time_point last = Clock::now();
    const std::lock_guard lock(mutex);
    busy += sleeps.busy;
    begin = std::min(begin, first);
    end = std::max(end, last);
  });
  const double step = std::chrono::duration<double>(end - begin).count();
  return {step, 1 - busy / (ranks * step)};
}

struct Layout {
  int ranks;
  std::vector<std::string> settings;
};

class Sleeping : public testing::TestWithParam<Layout> {};

TEST_P(Sleeping, StepsTakeThePlannedTime) {
  const auto& [ranks, settings] = GetParam();
  ThreadPool::set_global_size(1);  // the small model has nothing to parallelize
  std::vector<std::string> overrides = {"run.precision=fp32",        "model.num_layers=8",
                                        "model.hidden_size=16",      "model.vocab_size=64",
                                        "model.seq_length=8",        "train.micro_batch_size=1",
                                        "train.global_batch_size=16"};
  overrides.insert(overrides.end(), settings.begin(), settings.end());
  const Config config = small(overrides);
  const Machine machine = slow_machine(ranks);
  const LayoutPlan plan = plan_layout(config, ranks, machine.target);
  const Stack& stack = find_stack("trireme");
  const TimePlan planned = plan_time(plan, config, machine, stack, 1);
  ASSERT_EQ(planned.refused, "");
  std::vector<Seconds> seconds;
  const CostModel costs(*machine.speed, stack, 1, true);
  for (const RankPlan& rank : plan.ranks) seconds.push_back(seconds_of(rank, costs));

  // Other load only makes steps longer: the minimum of several shows the model's time.
  constexpr double error = 0.03, points = 0.02;
  Step best{HUGE_VAL, 1};
  for (int i = 0; i < 8 && best.seconds > (1 + error) * planned.seconds; ++i) {
    const Step step = measured(config, ranks, seconds);
    if (step.seconds < best.seconds) best = step;
  }
  std::printf("%d ranks: %.1f ms planned, %.1f ms measured (%+.1f%%); bubble %.1f%%, %.1f%%\n",
              ranks, 1e3 * planned.seconds, 1e3 * best.seconds,
              100 * (best.seconds / planned.seconds - 1), 100 * planned.bubble, 100 * best.bubble);
  EXPECT_NEAR(best.seconds / planned.seconds, 1, error);
  EXPECT_NEAR(best.bubble, planned.bubble, points);
}

const std::vector<Layout> layouts = {
    {4, {"parallel.pp=4"}},
    {4, {"parallel.pp=4", "parallel.schedule=zb1p"}},
    {4, {"parallel.pp=2", "parallel.zero=1"}},
    {8, {"parallel.pp=8"}},
    {8,
     {"parallel.pp=4", "parallel.tp=2", "parallel.schedule=interleaved",
      "parallel.virtual_stages=2"}},
    {8, {"parallel.pp=4", "parallel.zero=1", "parallel.schedule=zbv"}},
};

INSTANTIATE_TEST_SUITE_P(LongLayouts, Sleeping, testing::ValuesIn(layouts));

}  // namespace
}  // namespace trireme
