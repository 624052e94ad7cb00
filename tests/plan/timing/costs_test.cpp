// Tests of kernel and message times against values computed by hand.
#include "plan/timing/costs.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/timing/hand_made.h"

namespace trireme {
namespace {

using namespace testing_timing;

double product_seconds(const MachineSpeed& machine, const RecordedProductShape& shape) {
  return CostModel(machine, own_stack(), 1, false).product(shape);
}

TEST(Product, TakesItsFlopsWhereTilesFillTheUnits) {
  EXPECT_DOUBLE_EQ(product_seconds(fast_memory(), {256, 256, 256}), 2.0 * 256 * 256 * 256 / 1e12);
}

// One more row needs two more tiles, and a second wave for them.
TEST(Product, TakesWholeTilesAndWholeWaves) {
  const MachineSpeed machine = fast_memory();
  EXPECT_DOUBLE_EQ(product_seconds(machine, {257, 256, 256}),
                   2 * product_seconds(machine, {256, 256, 256}));
  EXPECT_DOUBLE_EQ(product_seconds(machine, {1, 1, 256}),
                   product_seconds(machine, {256, 256, 256}));
}

TEST(Product, IsSlowerWhereTheInnerDimensionIsShort) {
  MachineSpeed machine = fast_memory();
  machine.half_depth = 256;
  EXPECT_DOUBLE_EQ(product_seconds(machine, {256, 256, 256}), 2 * 2.0 * 256 * 256 * 256 / 1e12);
}

// A single tile with a long sum leaves three units idle, so split-K uses four parts.
TEST(Product, IsCutAlongALongInnerDimension) {
  EXPECT_NEAR(product_seconds(fast_memory(), {128, 128, 4096}), 2.0 * 128 * 128 * 4096 / 1e12,
              1e-9);
}

TEST(Work, TakesAsLongAsMemoryOrTilesNeed) {
  MachineSpeed machine = slow_machine();
  machine.launch = 7;
  const CostModel costs(machine, own_stack(), 0.5, false);
  EXPECT_DOUBLE_EQ(costs.work(kernel(100)), 100 / 0.5 + 7);
  RecordedWork product{.kind = RecordedWork::Kind::product, .product = {10, 20, 30}};
  EXPECT_DOUBLE_EQ(costs.work(product), 2.0 * (10 * 30 + 30 * 20 + 10 * 20) / 0.5 + 7);
  // A copy reads and writes.
  EXPECT_DOUBLE_EQ(costs.work({.kind = RecordedWork::Kind::copy, .bytes = 50}), 100 + 7);
}

// Only GEMM speed is fitted to another stack; memory bandwidth has been measured.
TEST(Work, OfAnotherStackMovesMemoryAtItsRate) {
  MachineSpeed machine = slow_machine();
  Stack stack = own_stack();
  stack.memory_at_rate = true;
  const CostModel costs(machine, stack, 0.5, false);
  EXPECT_DOUBLE_EQ(costs.work(kernel(100)), 100);
  machine.memory_rate = 1e15;
  EXPECT_DOUBLE_EQ(CostModel(machine, stack, 0.5, false)
                       .work({.kind = RecordedWork::Kind::product, .product = {256, 256, 256}}),
                   2 * 2.0 * 256 * 256 * 256 / 1e12);
}

// Our attention has shares of its own, which FlashAttention 2 and the fastest one do not change.
TEST(Work, OfAttentionHasTheShareOfTheStack) {
  MachineSpeed machine = fast_memory();
  machine.attention = 0.8, machine.flash2 = 0.5, machine.own = 0.4, machine.own_grad = 0.2;
  const auto seconds = [&](const Stack& stack, const char* op) {
    return CostModel(machine, stack, 1, false)
        .work({.kind = RecordedWork::Kind::kernel, .op = op, .flops = 1e12});
  };
  const double forward = seconds(own_stack(), "attention");
  EXPECT_DOUBLE_EQ(seconds(own_stack(), "attention_grad"), 2 * forward);
  Stack other = own_stack();
  other.name = "other";
  EXPECT_DOUBLE_EQ(seconds(other, "attention"), forward / 2);
  other.flash2 = true;
  EXPECT_DOUBLE_EQ(seconds(other, "attention"), forward * 0.4 / 0.5);
}

TEST(Work, OfALossMovesWhatTheStackMovesForALogit) {
  const MachineSpeed machine = slow_machine();
  Stack stack = own_stack();
  stack.loss_traffic = 36;
  const CostModel costs(machine, stack, 1, false);
  const auto seconds = [&](const char* op, double bytes_of_a_logit) {
    return costs.work({.kind = RecordedWork::Kind::kernel,
                       .name = "kernel",
                       .op = op,
                       .bytes = 100 * bytes_of_a_logit});
  };
  EXPECT_DOUBLE_EQ(seconds("classifier", 4), 100 * 36);
  EXPECT_DOUBLE_EQ(seconds("softmax_stats", 2) + seconds("cross_entropy_grad", 4), 100 * 36);
  EXPECT_DOUBLE_EQ(seconds("add", 6), 100 * 6);
}

TEST(Message, OfARingTakesItsShareOfTheBus) {
  MachineSpeed machine = slow_machine();
  machine.node_latency = 3;
  const CostModel costs(machine, own_stack(), 1, false);
  const auto seconds = [&](int ranks, double whole) {
    return costs.message(message(MessageKind::all_reduce, 0, 2 * whole * (ranks - 1) / ranks),
                         group_of("tensor", ranks_up_to(ranks)));
  };
  EXPECT_DOUBLE_EQ(seconds(2, 100), 3 + 100.0 / 10);
  EXPECT_DOUBLE_EQ(seconds(8, 100), 3 + 2 * 100.0 * 7 / 8 / 4);
  EXPECT_DOUBLE_EQ(seconds(4, 100), 3 + 2 * 100.0 * 3 / 4 / 4) << "as the next larger group";
}

TEST(Message, HasHalfTheRateAtItsHalfSizeAndBelow) {
  MachineSpeed machine = slow_machine();
  machine.node_half = 100;
  const CostModel costs(machine, own_stack(), 1, false);
  const auto seconds = [&](double whole) {
    return costs.message(message(MessageKind::all_gather, 0, whole / 2),
                         group_of("gather", {0, 1}));
  };
  EXPECT_DOUBLE_EQ(seconds(100), 2 * 50.0 / 10);
  EXPECT_DOUBLE_EQ(seconds(10), 2 * 5.0 / 10);
  EXPECT_DOUBLE_EQ(seconds(1e6), (1 + 1e-4) * 5e5 / 10);
}

// A node has 4 NICs of 0.5. A group of all its devices uses all of them; of eight groups with one
// device per node each, every group gets an eighth.
TEST(Message, BetweenNodesSharesTheCards) {
  const MachineSpeed machine = slow_machine();
  const CostModel costs(machine, own_stack(), 1, false);
  const auto seconds = [&](const std::vector<int>& ranks) {
    return costs.message(message(MessageKind::reduce_scatter, 0, 100), group_of("shard", ranks));
  };
  EXPECT_DOUBLE_EQ(seconds(ranks_up_to(16)), 100 / (4 * 0.5));
  EXPECT_DOUBLE_EQ(seconds({0, 8}), 100 / (4 * 0.5 / 8));
}

TEST(Message, OfAPairTakesALinkOrACard) {
  const MachineSpeed machine = slow_machine();
  const CostModel costs(machine, own_stack(), 1, false);
  const auto seconds = [&](const std::vector<int>& ranks) {
    return costs.message(message(MessageKind::send, 0, 100, 1), group_of("pipeline", ranks));
  };
  EXPECT_DOUBLE_EQ(seconds({0, 4}), 100.0 / 5);
  EXPECT_DOUBLE_EQ(seconds({6, 8}), 100.0 / 0.5) << "two devices of four cards";
  EXPECT_DOUBLE_EQ(seconds({0, 8}), 100.0 / 0.25) << "eight of four";
}

TEST(Stack, IsKnownByName) {
  for (const Stack& stack : all_stacks()) EXPECT_EQ(&find_stack(stack.name), &stack);
  EXPECT_TRUE(own_stack().is_own());
  try {
    find_stack("jax");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    EXPECT_NE(std::string(error.what()).find("megatron-deepspeed"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme
