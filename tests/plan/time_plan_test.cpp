// Tests of the times of planned steps.
#include "plan/time_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/small_config.h"

namespace trireme {
namespace {

using testing::HasSubstr;

TimePlan time_of(const Config& config, int ranks, const std::string& machine_name,
                 const std::string& stack = "trireme") {
  const Machine machine = find_machine(machine_name);
  return plan_time(plan_layout(config, ranks, machine.target), config, machine, find_stack(stack));
}

Config gpt_13b(std::vector<std::string> more) {
  std::vector<std::string> settings = {
      "model.preset=gpt3-13b", "model.vocab_size=50257",   "train.iters=1",
      "optimizer.lr=1e-4",     "train.micro_batch_size=2", "train.global_batch_size=1024",
      "run.precision=fp16",    "parallel.recompute=full",  "run.device=hip"};
  settings.insert(settings.end(), more.begin(), more.end());
  return parse_config("", "test", settings);
}

TEST(TimePlan, HasWhatUsersCompare) {
  const TimePlan time = time_of(gpt_13b({"parallel.zero=2"}), 16, "lumi-g");
  EXPECT_EQ(time.refused, "");
  EXPECT_NEAR(time.samples_per_second() * time.seconds, 1024, 1e-6);
  EXPECT_NEAR(time.tokens_per_second() * time.seconds * 16, 1024 * 2048, 1e-3);
  const Utilization u = time.utilization();
  EXPECT_LT(u.necessary, u.uncut);
  EXPECT_DOUBLE_EQ(u.recomputed, u.uncut * 4 / 3);
  EXPECT_NEAR(time.flops_rate() / 191.5e12, u.uncut, 1e-9);
  double path = 0;
  for (const double part : time.path) path += part;
  EXPECT_NEAR(path, time.seconds, 1e-6 * time.seconds);
  EXPECT_THAT(to_text(time), HasSubstr("samples/s"));
}

// Plans on a CPU, which supports experts, with the speeds of another machine.
TEST(TimePlan, SaysHowLongARoundOfExpertsTakes) {
  const Machine machine = find_machine("lumi-g");
  const auto time = [&](const char* ep) {
    const Config config = small({"model.family=llama", "moe.num_experts=8", "moe.top_k=2",
                                 "model.hidden_size=512", std::string("parallel.ep=") + ep});
    return plan_time(plan_layout(config, 4), config, machine, find_stack("trireme"));
  };
  EXPECT_EQ(time("1").expert_round, 0);
  const TimePlan two = time("2");
  EXPECT_GT(two.expert_round, 0);
  EXPECT_LT(two.expert_round, two.seconds);
  EXPECT_THAT(to_text(two), HasSubstr("experts: one round of a layer takes "));
}

// Published results of LUMI: one row does not fit, one fills the memory, one waits for the host.
TEST(TimePlan, RefusesWhatNoModelKnows) {
  const auto refused = [](const std::vector<std::string>& settings, int ranks) {
    return time_of(gpt_13b(settings), ranks, "lumi-g", "megatron-deepspeed").refused;
  };
  EXPECT_THAT(refused({"parallel.zero=1"}, 8), HasSubstr("of the device's memory"));
  EXPECT_THAT(refused({"parallel.zero=1"}, 16), HasSubstr("above 95%"));
  EXPECT_THAT(refused({"model.preset=gpt3-125m", "train.global_batch_size=256", "parallel.pp=2",
                       "parallel.tp=2"},
                      16),
              HasSubstr("the host"));
  EXPECT_EQ(refused({"parallel.zero=2"}, 16), "");
}

TEST(TimePlan, RefusesWhatTheMachineFileDoesNotKnow) {
  EXPECT_THAT(time_of(small({"run.precision=fp64", "run.device=hip"}), 1, "lumi-g").refused,
              HasSubstr("no figures for GEMMs in fp64"));
}

// A published row that was not used for the fit.
TEST(TimePlan, IsNearWhatWasMeasured) {
  const TimePlan time =
      time_of(gpt_13b({"parallel.pp=8", "parallel.tp=2"}), 16, "lumi-g", "megatron-deepspeed");
  EXPECT_NEAR(time.samples_per_second() / 4.498, 1, time.band);
}

Config llama3_8b_on_frontier(const std::vector<std::string>& more) {
  std::vector<std::string> settings = {
      "model.preset=llama3-8b",         "train.iters=1",   "optimizer.lr=1e-4",
      "optimizer.clip_grad=1.0",        "run.device=hip",  "run.precision=bf16",
      "parallel.recompute=full",        "parallel.zero=3", "parallel.tp=8",
      "parallel.sequence_parallel=true"};
  settings.insert(settings.end(), more.begin(), more.end());
  Config config = parse_config("", "test", settings);
  assume_vocabulary(config);
  return config;
}

// The largest published run of torchtitan on Frontier, 640 nodes at 597 tokens/s per device, took
// longer than the band allows: the plan of such a run says so, with the difference.
TEST(TimePlan, SaysWhereTheBandEnds) {
  const auto of = [](int ranks, const std::vector<std::string>& more) {
    return time_of(llama3_8b_on_frontier(more), ranks, "frontier", "torchtitan-compile");
  };
  const TimePlan large = of(5120, {"train.micro_batch_size=21", "train.global_batch_size=13440",
                                   "parallel.dp_replicate=20"});
  ASSERT_EQ(large.refused, "");
  const double published = 13440 * 8192 / (5120 * 597.0);
  EXPECT_NEAR(large.seconds * (1 + large.beyond), published, 0.01 * published);
  EXPECT_GT(large.beyond, large.band);
  EXPECT_THAT(to_text(large), HasSubstr("the error band is validated up to 64 devices: no larger "
                                        "published run was predicted within it; one took 61% "
                                        "longer than predicted, so this is a lower bound"));
  const TimePlan small = of(64, {"train.micro_batch_size=1", "train.global_batch_size=64"});
  EXPECT_THAT(to_text(small), testing::Not(HasSubstr("the error band is validated")));
}

// Repetitions of a long schedule are extrapolated: each takes as long as the last one.
TEST(TimePlan, OfALongStepGrowsEvenly) {
  const auto seconds = [](int samples) {
    return time_of(small({"parallel.pp=2", "run.device=hip",
                          "train.global_batch_size=" + std::to_string(samples)}),
                   2, "lumi-g")
        .seconds;
  };
  const double a = seconds(400), b = seconds(800), c = seconds(1200);
  EXPECT_NEAR(c - b, b - a, 1e-6 * c);
  EXPECT_GT(b, 1.5 * a);
  // Per micro-batch, equal to a step that is short enough to be recorded in full.
  EXPECT_NEAR((b - a) / 200, (seconds(32) - seconds(24)) / 4, 0.02 * (b - a) / 200);
}

// Repeated pieces that are replayed as a unit take as long as kernel by kernel.
TEST(TimePlan, IsTheSameAtOnceAndInDetail) {
  for (const char* host : {"3e-6", "3e-4"}) {
    Machine machine = find_machine("lumi-g");
    machine.speed->host = std::stod(host);
    const Config config =
        small({"run.device=hip", "parallel.pp=2", "parallel.tp=2", "parallel.zero=3",
               "model.hidden_size=256", "parallel.sequence_parallel=true"});
    const LayoutPlan plan = plan_layout(config, 8, machine.target);
    const Stack& stack = find_stack("trireme");
    const CostModel costs = costs_of_plan(config, machine, stack);
    const std::vector<const Record*> programs = {&plan.ranks[0].program, &plan.ranks[1].program};
    const Replay at_once = replay(programs, costs), in_detail = replay(programs, costs, true);
    const double near = 1e-9 * in_detail.end.at;
    EXPECT_NEAR(at_once.end.at, in_detail.end.at, near);
    for (std::size_t k = 0; k < time_kinds; ++k) {
      EXPECT_NEAR(at_once.end.path[k], in_detail.end.path[k], near);
      for (std::size_t p = 0; p < 2; ++p) {
        EXPECT_NEAR(at_once.ranks[p].busy[k], in_detail.ranks[p].busy[k], near);
        EXPECT_NEAR(at_once.ranks[p].waits[k], in_detail.ranks[p].waits[k], near);
      }
    }
  }
}

// With more devices, the slowest one is slower.
TEST(TimePlan, WaitsForTheSlowestDevice) {
  const auto seconds = [](int ranks, double spread) {
    Machine machine = find_machine("lumi-g");
    machine.speed->spread = spread;
    const Config config =
        small({"run.device=hip", "model.hidden_size=4096", "train.micro_batch_size=1",
               "train.global_batch_size=" + std::to_string(ranks)});
    return plan_time(plan_layout(config, ranks, machine.target), config, machine,
                     find_stack("trireme"))
        .seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(1, 0.015), seconds(1, 0));
  const double two = seconds(2, 0.015) / seconds(2, 0), eight = seconds(8, 0.015) / seconds(8, 0);
  EXPECT_GT(two, 1);
  EXPECT_GT(eight, two);
  EXPECT_LT(eight, 1 + 0.015 * 1.6);
}

TEST(TimePlan, IsShorterWhereMessagesAreHidden) {
  const auto seconds = [](const char* stack) {
    return time_of(gpt_13b({"parallel.zero=2"}), 16, "lumi-g", stack).seconds;
  };
  EXPECT_LT(seconds("trireme"), seconds("megatron-deepspeed"));
}

}  // namespace
}  // namespace trireme
