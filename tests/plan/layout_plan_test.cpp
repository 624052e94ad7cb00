// Tests of plans against real runs.
#include "plan/layout_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <sstream>

#include "plan/small_config.h"
#include "runtime/devices.h"
#include "runtime/memory.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

const MemoryRegion* region(const RankPlan& rank, const std::string& name) {
  for (const MemoryRegion& one : rank.memory.regions)
    if (one.name == name) return &one;
  return nullptr;
}

std::int64_t bytes(const LayoutPlan& plan, const std::string& name, int rank = 0) {
  const MemoryRegion* found = region(plan.ranks[rank], name);
  return found ? found->bytes : 0;
}

TEST(LayoutPlan, MemoryIsWhatTheEngineAllocates) {
  const Config config = small();
  const LayoutPlan plan = plan_layout(config, 1);
  Engine engine(config, build_options(config), {});
  const std::int64_t before = cpu::device().allocated();
  engine.allocate();
  EXPECT_EQ(cpu::device().allocated() - before, plan.ranks[0].memory.total());
}

// Times halve the flops of causal attention only, whatever family a model is of.
TEST(LayoutPlan, KnowsWhichAttentionIsCausal) {
  EXPECT_EQ(plan_layout(small(), 1).causal_share, 1);
  EXPECT_EQ(plan_layout(small({"model.family=llama"}), 1).causal_share, 1);
  EXPECT_EQ(plan_layout(small({"model.family=bert"}), 1).causal_share, 0);
}

TEST(LayoutPlan, ZeroSharesOutStatesThenGradientsThenParameters) {
  const auto with = [](const char* zero) { return plan_layout(small({zero}), 4); };
  const LayoutPlan none = with("parallel.zero=0"), one = with("parallel.zero=1"),
                   two = with("parallel.zero=2"), three = with("parallel.zero=3");
  // Parts are rounded up to blocks.
  const auto is_a_quarter = [](std::int64_t part, std::int64_t whole) {
    EXPECT_GE(part, whole / 4);
    EXPECT_LT(static_cast<double>(part), 0.27 * static_cast<double>(whole));
  };
  for (const char* states : {"first moments", "second moments", "master weights"})
    is_a_quarter(bytes(one, states), bytes(none, states));
  EXPECT_GE(bytes(one, "gradients"), bytes(none, "gradients"));
  is_a_quarter(bytes(two, "gradient sums"), bytes(none, "gradients"));
  EXPECT_EQ(bytes(two, "gradients"), 0);
  is_a_quarter(bytes(three, "sharded parameters"), bytes(none, "parameters"));
  EXPECT_EQ(bytes(three, "parameters"), 0);
}

// On a GPU, offloading frees device memory except for data in flight; on the CPU it does not.
TEST(LayoutPlan, OffloadToTheHostOfAGpu) {
  const std::vector<std::string> settings = {"offload.optimizer=host", "offload.activations=host",
                                             "offload.parameters=host", "parallel.zero=3",
                                             "model.num_layers=12"};
  const auto plan_for = [&](DeviceKind device, const std::vector<std::string>& more) {
    std::vector<std::string> all = {fmt::format("run.device={}", name_of(device)),
                                    "parallel.zero=3", "model.num_layers=12"};
    all.insert(all.end(), more.begin(), more.end());
    return plan_layout(small(all), 2, target_of(device));
  };
  const LayoutPlan without = plan_for(DeviceKind::cuda, {}),
                   with = plan_for(DeviceKind::cuda, settings);
  const RankPlan& rank = with.ranks[0];
  std::int64_t states = 0;
  for (const char* name : {"master weights", "first moments", "second moments"}) {
    EXPECT_EQ(bytes(with, name), 0) << name;
    states += bytes(without, name);
  }
  EXPECT_EQ(bytes(with, "sharded parameters"), 0);
  EXPECT_LT(rank.memory.total(), without.ranks[0].memory.total());
  // Parts of buckets are rounded up to file alignment.
  EXPECT_GE(rank.on_host.states, states);
  EXPECT_LT(rank.on_host.states, states * 11 / 10);
  EXPECT_GE(rank.on_host.parameters, bytes(without, "sharded parameters"));
  EXPECT_GE(rank.on_host.activations, bytes(without, "saved activations"));
  EXPECT_EQ(rank.in_files.total(), 0);
  // Each state moves out and back once per step, as do activations.
  EXPECT_GE(rank.host.written, static_cast<double>(states));
  EXPECT_GT(rank.host.read, static_cast<double>(states));
  EXPECT_EQ(rank.files.read, 0);
  EXPECT_EQ(without.ranks[0].on_host.total(), 0);
  EXPECT_EQ(without.ranks[0].host.read, 0);
  const LayoutPlan on_cpu = plan_for(DeviceKind::cpu, settings),
                   plain = plan_for(DeviceKind::cpu, {});
  EXPECT_EQ(to_text(on_cpu.ranks[0].memory), to_text(plain.ranks[0].memory));
  EXPECT_EQ(on_cpu.ranks[0].on_host.total(), 0);
}

// Checkpoints are written from a copy in host memory, on any device.
TEST(LayoutPlan, TheCopyForCheckpointsOfAGpuIsOnItsHost) {
  const auto plan_for = [](DeviceKind device, const std::string& async) {
    return plan_layout(
        small({fmt::format("run.device={}", name_of(device)), "checkpoint.async=" + async}), 1,
        target_of(device));
  };
  const LayoutPlan with = plan_for(DeviceKind::cuda, "true"),
                   without = plan_for(DeviceKind::cuda, "false");
  EXPECT_EQ(with.ranks[0].memory.total(), without.ranks[0].memory.total());
  EXPECT_EQ(without.ranks[0].on_host.total(), 0);
  const LayoutPlan on_cpu = plan_for(DeviceKind::cpu, "true");
  EXPECT_EQ(on_cpu.ranks[0].on_host.total(), 0);
  EXPECT_GT(bytes(on_cpu, "copy for checkpoints"), 0);
  EXPECT_EQ(with.ranks[0].on_host.copies, bytes(on_cpu, "copy for checkpoints"));
}

// 1F1B holds p micro-batches on the first rank, V-Half p/2 + 1 on every rank, plus values that are
// kept for weight gradients.
TEST(LayoutPlan, VHalfHoldsFewerActivations) {
  const auto saved = [](const char* schedule) {
    const LayoutPlan plan = plan_layout(
        small({"parallel.pp=8", "model.num_layers=16", "train.global_batch_size=32", schedule}), 8);
    std::int64_t most = 0;
    for (int rank = 0; rank < 8; ++rank) {
      most = std::max(most, bytes(plan, "saved activations", rank) +
                                bytes(plan, "saved for weight gradients", rank));
    }
    return static_cast<double>(most);
  };
  EXPECT_LE(saved("parallel.schedule=vhalf"), 0.75 * saved("parallel.schedule=1f1b"));
}

// Where the cells of a line end; cells are two spaces or more apart.
std::vector<std::size_t> ends_of_cells(const std::string& line) {
  std::vector<std::size_t> ends;
  std::size_t begin = line.find_first_not_of(' ');
  while (begin != std::string::npos) {
    const std::size_t end = std::min(line.find("  ", begin), line.size());
    ends.push_back(end);
    begin = line.find_first_not_of(' ', end);
  }
  return ends;
}

// Long names of regions and of ranges of layers push no column out of line.
TEST(LayoutPlan, TablesAreInLine) {
  const Config config =
      small({"parallel.pp=8", "parallel.virtual_stages=4", "parallel.schedule=interleaved",
             "model.num_layers=96", "train.global_batch_size=64", "parallel.numerics=exact",
             "parallel.zero=1", "offload.optimizer=host", "checkpoint.async=true"});
  std::istringstream text(to_text(plan_layout(config, 16), config));
  std::vector<std::size_t> in_line;  // of the table's first row, without what is left-aligned
  std::size_t cells = 0, rows = 0, longest = 0;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("memory per rank") || line.starts_with("rank of")) {
      in_line = ends_of_cells(line);
      cells = in_line.size();
      in_line.erase(in_line.begin(), in_line.begin() + (line.starts_with("rank of") ? 2 : 1));
      continue;
    }
    std::vector<std::size_t> ends = ends_of_cells(line);
    if (line.empty()) cells = 0;
    if (cells == 0 || ends.size() == 1) continue;  // no table, or the title of a part
    ASSERT_EQ(ends.size(), cells) << line;
    ends.erase(ends.begin(), ends.end() - std::ssize(in_line));
    EXPECT_EQ(ends, in_line) << line;
    ++rows;
    longest = std::max(longest, line.find("  ", 2));
  }
  EXPECT_GT(rows, 12u);
  EXPECT_GE(longest, std::string("  scalars and totals of a step").size());
}

TEST(LayoutPlan, TrafficFollowsTheFormulas) {
  const LayoutPlan dp = plan_layout(small(), 4);
  const Traffic& traffic = dp.ranks[0].traffic;
  EXPECT_EQ(traffic.tensor, 0);
  EXPECT_EQ(traffic.pipeline, 0);
  // A ring's share, plus a little more because small buckets are sent to all ranks directly.
  const double ring = 2.0 * 3 / 4 * static_cast<double>(bytes(dp, "gradients"));
  EXPECT_GE(traffic.gradients, ring);
  EXPECT_LE(traffic.gradients, 1.02 * ring);
  const LayoutPlan pp = plan_layout(small({"parallel.pp=2"}), 2);
  // 8 micro-batches of 2 x 32 rows of 64 bf16: activations forward, gradients backward.
  EXPECT_EQ(pp.ranks[0].traffic.pipeline, 8.0 * 2 * 32 * 64 * 2);
  EXPECT_EQ(pp.ranks[1].traffic.pipeline, 8.0 * 2 * 32 * 64 * 2);
}

TEST(LayoutPlan, OfFiveThousandRanksTakesUnderASecond) {
  const Config config = small({"parallel.tp=8", "parallel.pp=16", "model.num_layers=96",
                               "model.hidden_size=12288", "model.num_heads=96", "parallel.zero=1",
                               "train.global_batch_size=1920", "train.micro_batch_size=1"});
  // Measures processor time, which is independent of other load. Sanitizers slow it down.
#ifdef TRIREME_ASSERTIONS
  const double limit = 20;
#else
  const double limit = 1;
#endif
  const std::clock_t begin = std::clock();
  const LayoutPlan plan = plan_layout(config, 5120);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, limit);
  EXPECT_EQ(plan.ranks.size(), 16u);
  EXPECT_GT(plan.ranks[0].memory.total(), std::int64_t{1} << 30);
}

}  // namespace
}  // namespace trireme
