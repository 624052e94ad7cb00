// Tests of replays of hand-made steps.
#include "plan/timing/replay.h"

#include <gtest/gtest.h>

#include "plan/timing/hand_made.h"

namespace trireme {
namespace {

using namespace testing_timing;

double seconds_of(const Record& record, const Stack& stack = own_stack()) {
  const MachineSpeed machine = slow_machine();
  return replay({&record}, CostModel(machine, stack, 1, false)).end.at;
}

TEST(Replay, OverlapsMessagesWithKernels) {
  for (const auto& [sent, expected] : {std::pair{20.0, 4.0}, {50.0, 6.0 + 0.5}}) {
    Record record;
    record.add_group(group_of("shard", {0, 1}));
    record.add(kernel(1));
    const int number = record.add_message(message(MessageKind::reduce_scatter, 0, sent));
    record.add(kernel(3));
    record.add_wait(number);
    if (sent > 20) record.add(kernel(0.5));
    // After the first kernel, 2 or 5 seconds of the message overlap with 3 of a kernel.
    EXPECT_DOUBLE_EQ(seconds_of(record), expected);
  }
}

// Gradient reductions and parameter gathers share the same links.
TEST(Replay, RunsMessagesOfAGroupInOrderAndGroupsSideBySide) {
  for (const auto& [second, expected] : {std::pair{0, 2.0}, {1, 2.0}, {2, 1.0}}) {
    Record record;
    record.add_group(group_of("shard", {0, 1}));
    record.add_group(group_of("gather", {0, 1}));
    record.add_group(group_of("tensor", {0, 1}));
    const int one = record.add_message(message(MessageKind::all_gather, 0, 10));
    const int two = record.add_message(message(MessageKind::all_gather, second, 10));
    record.add_wait(one);
    record.add_wait(two);
    EXPECT_DOUBLE_EQ(seconds_of(record), expected) << second;
  }
}

// Copies from and to the host overlap with kernels, in both directions at once; reads come after
// the writes of the same data.
TEST(Replay, OverlapsCopiesWithTheHost) {
  const auto copy = [](RecordedWork::Kind kind, double bytes) {
    return RecordedWork{.kind = kind, .name = "copy", .bytes = bytes};
  };
  constexpr auto load = RecordedWork::Kind::load, store = RecordedWork::Kind::store;
  Record both;
  const int in = both.add_operation(copy(load, 3));
  const int out = both.add_operation(copy(store, 2));
  both.add(kernel(4));
  both.add_wait(in);
  both.add_wait(out);
  EXPECT_DOUBLE_EQ(seconds_of(both), 4);
  Record turned;
  turned.add_operation(copy(store, 2));
  turned.add_wait(turned.add_operation(copy(load, 3)));
  EXPECT_DOUBLE_EQ(seconds_of(turned), 5);
  // With a file, nothing is hidden: the host waits.
  Record file;
  file.add(copy(load, 3));
  file.add(kernel(4));
  EXPECT_DOUBLE_EQ(seconds_of(file), 7);
}

TEST(Replay, RepeatsPieces) {
  Record record;
  for (int i = 0; i < 5; ++i) {
    if (record.begin({})) record.add(kernel(2));
    record.end();
  }
  EXPECT_DOUBLE_EQ(seconds_of(record), 10);
}

// A piece in isolation includes the messages that it waits for, but not a late host.
TEST(Replay, TimesPiecesAlone) {
  Record record;
  record.add_group(group_of("tensor", {0, 1}));
  record.begin({});
  record.add(kernel(2));
  record.add_wait(record.add_message(message(MessageKind::all_reduce, 0, 30)));
  record.add(kernel(1));
  record.end();
  MachineSpeed machine = slow_machine();
  machine.host = 100;
  const auto times = times_alone(record, CostModel(machine, own_stack(), 1, false));
  EXPECT_DOUBLE_EQ(times.at({}).compute, 2 + 3 + 1);
  EXPECT_DOUBLE_EQ(times.at({}).host, 200);
}

// A stack that waits for every bucket overlaps none of them.
TEST(Replay, OfAStackThatBlocksHidesNothing) {
  Record record;
  record.add_group(group_of("shard", {0, 1}));
  Stack blocking = own_stack();
  blocking.blocking_gradients = true;
  const int number = record.add_message(message(MessageKind::reduce_scatter, 0, 20));
  record.add(kernel(3));
  record.add_wait(number);
  EXPECT_DOUBLE_EQ(seconds_of(record), 3);
  EXPECT_DOUBLE_EQ(seconds_of(record, blocking), 5);
}

TEST(Replay, IsLateWhereTheHostIs) {
  Record record;
  for (int i = 0; i < 4; ++i) record.add(kernel(1));
  Stack slow = own_stack();
  slow.host = 2;
  const MachineSpeed machine = slow_machine();
  const Replay step = replay({&record}, CostModel(machine, slow, 1, false));
  EXPECT_DOUBLE_EQ(step.end.at, 4 * 2 + 1);
  EXPECT_DOUBLE_EQ(step.end.path[static_cast<std::size_t>(TimeKind::host)], 8);
}

// The record of a 1F1B stage, whose forward passes take one second and backward passes two.
Record one_f_one_b(int stage, int stages, int micro_batches) {
  Record record;
  std::vector<int> ranks = ranks_up_to(stages);
  record.add_group(group_of("world", ranks, stage));
  record.add_group(group_of("pipeline", ranks, stage));
  const auto pass = [&](int from, int to, double seconds) {
    if (from >= 0 && from < stages)
      record.add_wait(record.add_message(message(MessageKind::receive, 1, 0, from)));
    record.add(kernel(seconds));
    if (to >= 0 && to < stages) record.add_message(message(MessageKind::send, 1, 1e-12, to));
  };
  const auto forward = [&] { pass(stage - 1, stage + 1, 1); };
  const auto back = [&] { pass(stage + 1, stage - 1, 2); };
  const int first = std::min(micro_batches, stages - 1 - stage);
  for (int i = 0; i < first; ++i) forward();
  for (int i = first; i < micro_batches; ++i) {
    forward();
    back();
  }
  for (int i = 0; i < first; ++i) back();
  return record;
}

TEST(Replay, HasTheBubbleOfOneForwardOneBackward) {
  const MachineSpeed machine = slow_machine();
  for (const int stages : {1, 2, 4, 7}) {
    for (const int micro_batches : {stages, 2 * stages, 3 * stages + 1}) {
      std::vector<Record> records;
      for (int s = 0; s < stages; ++s) records.push_back(one_f_one_b(s, stages, micro_batches));
      std::vector<const Record*> programs;
      for (const Record& record : records) programs.push_back(&record);
      const Replay step = replay(programs, CostModel(machine, own_stack(), 1, false));
      EXPECT_NEAR(step.end.at, (micro_batches + stages - 1) * 3, 1e-9)
          << stages << " stages, " << micro_batches << " micro-batches";
      double path = 0;
      for (const double part : step.end.path) path += part;
      EXPECT_NEAR(path, step.end.at, 1e-9) << "the chain of work adds up to the step";
    }
  }
}

// Two stages; the first sends after one second and then computes for another; the second starts to
// receive after `late` seconds.
double end_of_a_send(double late, Stack::Blocking blocking) {
  const MachineSpeed machine = slow_machine();
  std::vector<Record> records(2);
  for (int r = 0; r < 2; ++r) {
    records[r].add_group(group_of("world", {0, 1}, r));
    records[r].add_group(group_of("pipeline", {0, 1}, r));
  }
  records[0].add(kernel(1));
  const int sent = records[0].add_message(message(MessageKind::send, 1, 10, 1));
  records[0].add(kernel(1));
  records[0].add_wait(sent);
  records[0].add(kernel(1));
  records[1].add(kernel(late));
  records[1].add_wait(records[1].add_message(message(MessageKind::receive, 1, 0, 0)));
  Stack stack = own_stack();
  stack.blocking_sends = blocking;
  const Replay step = replay({&records[0], &records[1]}, CostModel(machine, stack, 1, false));
  return step.ranks[0].end;
}

// A message takes two seconds here, once both sides are ready. Waiting for a send includes waiting
// for its receive.
TEST(Replay, SendsWaitForTheirReceives) {
  using enum Stack::Blocking;
  EXPECT_DOUBLE_EQ(end_of_a_send(0.5, never), 1 + 2 + 1);
  EXPECT_DOUBLE_EQ(end_of_a_send(4, never), 4 + 2 + 1);
  EXPECT_DOUBLE_EQ(end_of_a_send(0.5, always), 1 + 2 + 1 + 1);
  EXPECT_DOUBLE_EQ(end_of_a_send(4, always), 4 + 2 + 1 + 1);
  EXPECT_DOUBLE_EQ(end_of_a_send(4, in_1f1b), 4 + 2 + 1 + 1);
}

// Two stages. The second runs a pass of three seconds, of weight gradients or of another kind,
// before it receives what the first sent after one second; the message takes two.
double end_of_an_early_receive(const WorkKey& before, bool early) {
  std::vector<Record> records(2);
  for (int r = 0; r < 2; ++r) {
    records[r].add_group(group_of("world", {0, 1}, r));
    records[r].add_group(group_of("pipeline", {0, 1}, r));
  }
  records[0].add(kernel(1));
  records[0].add_message(message(MessageKind::send, 1, 10, 1));
  records[1].begin(before);
  records[1].add(kernel(3));
  records[1].end();
  records[1].add_wait(records[1].add_message(message(MessageKind::receive, 1, 0, 0)));
  Stack stack = own_stack();
  stack.early_receives = early;
  const MachineSpeed machine = slow_machine();
  return replay({&records[0], &records[1]}, CostModel(machine, stack, 1, false)).end.at;
}

TEST(Replay, ReceivesEarlyBeforeAPassOfWeightGradients) {
  const WorkKey backward{.pass = 1}, weight_grad{.pass = 2}, forward_of_chunk{.chunk = 1};
  EXPECT_DOUBLE_EQ(end_of_an_early_receive(weight_grad, false), 3 + 2);
  EXPECT_DOUBLE_EQ(end_of_an_early_receive(weight_grad, true), 3) << "next to the pass";
  EXPECT_DOUBLE_EQ(end_of_an_early_receive(forward_of_chunk, true), 3);
  EXPECT_DOUBLE_EQ(end_of_an_early_receive(backward, true), 3 + 2);
}

// Two stages of two ranks each: each rank sends half of the message, and the receivers gather both
// halves.
TEST(Replay, SharesWhatIsSentAmongTheTensorGroup) {
  std::vector<Record> records(2);
  for (int r = 0; r < 2; ++r) {
    records[r].add_group(group_of("world", {0, 1, 2, 3}, 2 * r));
    records[r].add_group(group_of("pipeline", {0, 2}, r));
    records[r].add_group(group_of("tensor", {2 * r, 2 * r + 1}));
  }
  records[0].add_message(message(MessageKind::send, 1, 40, 1));
  // The second stage's reply determines the size of a message.
  records[1].add_wait(records[1].add_message(message(MessageKind::receive, 1, 0, 0)));
  records[1].add_message(message(MessageKind::send, 1, 40, 0));
  records[0].add_wait(records[0].add_message(message(MessageKind::receive, 1, 0, 1)));
  Stack stack = own_stack();
  const auto seconds = [&] {
    const MachineSpeed machine = slow_machine();
    return replay({&records[0], &records[1]}, CostModel(machine, stack, 1, false)).end.at;
  };
  EXPECT_DOUBLE_EQ(seconds(), 2 * 40 / 5.0);
  stack.shared_sends = true;
  EXPECT_DOUBLE_EQ(seconds(), 2 * (20 / 5.0 + 20 / 10.0));
}

// A pass accumulates its gradients into those of earlier passes, unless they are reduced over ranks
// each time.
TEST(Replay, AddsUpGradientsThatNoProductAddsUp) {
  Stack stack = own_stack();
  stack.accumulation_traffic = 6;
  const auto seconds = [&](int sums) {
    Record record;
    record.add_group(group_of("shard", {0, 1}));
    for (int i = 0; i < 3; ++i) {
      if (record.begin({.pass = 1})) {
        record.begin_op("linear_weight_grad");
        record.add({.kind = RecordedWork::Kind::product, .product = {10, 20, 30}});
        record.end_op(0, 0);
      }
      record.end();
    }
    for (int i = 0; i < sums; ++i) record.add_message(message(MessageKind::all_reduce, 0, 0));
    return seconds_of(record, stack);
  };
  EXPECT_DOUBLE_EQ(seconds(1) - seconds(3), 3 * 6 * 10 * 20);
}

// Ranks of several positions start a joint reduction when the last of them is ready.
TEST(Replay, MeetsOnOtherPositions) {
  const MachineSpeed machine = slow_machine();
  std::vector<Record> records(2);
  for (int r = 0; r < 2; ++r) {
    records[r].add_group(group_of("world", {0, 1}, r));
    records[r].add(kernel(r == 0 ? 1 : 4));
    records[r].add_wait(records[r].add_message(message(MessageKind::all_reduce, 0, 10)));
  }
  const Replay step =
      replay({&records[0], &records[1]}, CostModel(machine, own_stack(), 1, false), true);
  EXPECT_DOUBLE_EQ(step.end.at, 4 + 1);
  EXPECT_DOUBLE_EQ(step.ranks[0].waits[static_cast<std::size_t>(TimeKind::totals)], 4);
  EXPECT_DOUBLE_EQ(step.ranks[1].waits[static_cast<std::size_t>(TimeKind::totals)], 1);
  const std::string trace = chrome_trace(step);
  EXPECT_NE(trace.find(R"("name":"kernel","ph":"X","pid":1,"tid":)"), std::string::npos);
  EXPECT_NE(trace.find(R"("ts":4000000.000,"dur":1000000.000)"), std::string::npos) << trace;
}

}  // namespace
}  // namespace trireme
