// Tests of another stack's work in place of a layer's recorded work, against values by hand.
#include "plan/timing/eager.h"

#include <gtest/gtest.h>

#include "plan/timing/hand_made.h"

namespace trireme {
namespace {

using namespace testing_timing;

constexpr std::int64_t rows = 64, hidden = 512, keys = 128, inner = 1024;
constexpr double elements = rows * hidden;

void add_kernel(Record& record, const char* op, double bytes) {
  record.begin_op(op);
  record.add({.kind = RecordedWork::Kind::kernel, .name = "kernel"});
  record.end_op(0, bytes);
}

void add_product(Record& record, std::int64_t columns, std::int64_t in) {
  record.begin_op("linear");
  record.add(
      {.kind = RecordedWork::Kind::product, .name = "product", .product = {rows, columns, in}});
  record.end_op(0, 0);
}

// The forward pass of a Llama layer with four queries per key.
Record layer() {
  Record record;
  record.begin({});
  add_kernel(record, "norm", 4 * elements);
  add_product(record, hidden + 2 * keys, hidden);
  add_kernel(record, "rope", 4.0 * rows * (hidden + 2 * keys));
  add_product(record, hidden, hidden);
  add_kernel(record, "norm", 8 * elements);
  add_product(record, 2 * inner, hidden);
  add_kernel(record, "activation", 6.0 * rows * inner);
  add_product(record, hidden, inner);
  record.end();
  return record;
}

class Eager : public testing::Test {
 protected:
  double seconds(const RecordedWork& work) const {
    return ForeignKernels(CostModel(machine, stack, 1, false), record).seconds(work);
  }
  double product(std::int64_t columns, std::int64_t in) const {
    return CostModel(machine, stack, 1, false)
        .work({.kind = RecordedWork::Kind::product, .product = {rows, columns, in}});
  }
  const RecordedWork& work(std::size_t number) const { return record.pieces().at({}).work[number]; }

  const Record record = layer();
  MachineSpeed machine = slow_machine();
  Stack stack = own_stack();
};

TEST_F(Eager, KernelsMoveWhatPyTorchMoves) {
  EXPECT_DOUBLE_EQ(seconds(work(0)), 4 * elements) << "ours, where nothing else is said";
  stack.eager = true;
  EXPECT_DOUBLE_EQ(seconds(work(0)), 36 * elements);
  EXPECT_DOUBLE_EQ(seconds(work(4)), (36 + 6) * elements) << "with the sum before it";
  EXPECT_DOUBLE_EQ(seconds(work(6)), 10.0 * rows * inner);
  // Queries and keys are converted to fp32 and back; keys and values are repeated for all queries.
  EXPECT_DOUBLE_EQ(seconds(work(2)), rows * (20.0 * (hidden + keys) + 4 * (hidden + keys)));
  stack.fused_norm = true;
  EXPECT_DOUBLE_EQ(seconds(work(4)), (4 + 6) * elements);
}

TEST_F(Eager, ProductsOfTheirOwnReadTheirInputEach) {
  EXPECT_DOUBLE_EQ(seconds(work(1)), product(hidden + 2 * keys, hidden));
  stack.separate_products = true;
  EXPECT_DOUBLE_EQ(seconds(work(1)), product(hidden, hidden) + 2 * product(keys, hidden));
  EXPECT_DOUBLE_EQ(seconds(work(5)), 2 * product(inner, hidden));
  EXPECT_DOUBLE_EQ(seconds(work(7)), product(hidden, inner)) << "one product";
  // Their input gradients are summed; in eager mode, without fusion, by a separate kernel.
  RecordedWork gradient{.kind = RecordedWork::Kind::product,
                        .name = "product of the input gradient",
                        .product = {rows, hidden, 2 * inner}};
  EXPECT_DOUBLE_EQ(seconds(gradient), 2 * product(hidden, inner) + 2 * elements);
  stack.eager = true;
  EXPECT_DOUBLE_EQ(seconds(gradient), 2 * product(hidden, inner) + 6 * elements);
}

TEST_F(Eager, EverySecondProductRunsAgain) {
  stack.separate_products = true;
  const auto again =
      ForeignKernels(CostModel(machine, stack, 1, false), record).again(record.pieces().at({}));
  EXPECT_DOUBLE_EQ(again.products,
                   product(keys, hidden) + product(hidden, hidden) + product(inner, hidden));
  EXPECT_DOUBLE_EQ(again.kernels, seconds(work(2)));
}

}  // namespace
}  // namespace trireme
