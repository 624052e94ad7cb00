// Tests of the checker: schedules with one error each, and deadlocks under each kind of
// transfer.
#include "parallel/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "parallel/all_kinds.h"
#include "parallel/states/slot_table.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using enum ActionKind;

std::string complaint(const Schedule& schedule, const CheckOptions& options = {}) {
  try {
    check_schedule(schedule, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Schedule base(ScheduleKind kind = ScheduleKind::zb1p) {
  return make_schedule({kind, 3, 4});
}

std::size_t find(const Schedule& s, int rank, ActionKind kind, int micro_batch, int chunk = 0) {
  const auto& actions = s.actions[rank];
  const auto found = std::find_if(actions.begin(), actions.end(), [&](const Action& a) {
    return a.kind == kind && a.micro_batch == micro_batch && a.chunk == chunk;
  });
  EXPECT_NE(found, actions.end());
  return static_cast<std::size_t>(found - actions.begin());
}

void move_before(Schedule& s, int rank, std::size_t from, std::size_t to) {
  auto& actions = s.actions[rank];
  const Action action = actions[from];
  actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(from));
  actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(to), action);
}

TEST(Check, RefusesPassesOutOfOrder) {
  Schedule s = base();
  move_before(s, 2, find(s, 2, input_grad, 0), find(s, 2, forward, 0));
  EXPECT_THAT(complaint(s), HasSubstr("the forward pass must come first"));
  s = base();
  move_before(s, 1, find(s, 1, weight_grad, 0), find(s, 1, input_grad, 0));
  EXPECT_THAT(complaint(s), HasSubstr("the input gradient must come first"));
}

TEST(Check, RefusesWeightGradientsOutOfOrder) {
  Schedule s = base();
  std::swap(s.actions[2][find(s, 2, weight_grad, 2)], s.actions[2][find(s, 2, weight_grad, 3)]);
  EXPECT_THAT(complaint(s), HasSubstr("ascending order"));
}

TEST(Check, RefusesWhatIsMissingOrTwice) {
  Schedule s = base();
  s.actions[1].erase(s.actions[1].begin() +
                     static_cast<std::ptrdiff_t>(find(s, 1, weight_grad, 3)));
  EXPECT_THAT(complaint(s), HasSubstr("rank 1"));
  s = base();
  s.actions[0].insert(s.actions[0].begin(), s.actions[0][find(s, 0, forward, 0)]);
  EXPECT_THAT(complaint(s), HasSubstr("already happened"));
  s = base();
  s.actions[0].pop_back();
  EXPECT_THAT(complaint(s), HasSubstr("no step"));
}

TEST(Check, RefusesDataThatIsNotThere) {
  Schedule s = base();
  move_before(s, 1, find(s, 1, forward, 0), find(s, 1, receive_activation, 0));
  EXPECT_THAT(complaint(s), HasSubstr("its input is not there"));
  s = base();
  move_before(s, 0, find(s, 0, send_activation, 1), find(s, 0, forward, 1));
  EXPECT_THAT(complaint(s), HasSubstr("nothing to send yet"));
  // Chunks on the same rank do not communicate, but their order still matters.
  s = make_schedule({ScheduleKind::zbv, 3, 6});
  move_before(s, 2, find(s, 2, forward, 0, 1), find(s, 2, forward, 0, 0));
  EXPECT_THAT(complaint(s), HasSubstr("its input is not there"));
}

TEST(Check, RefusesWrongPeersAndMessagesThatCross) {
  Schedule s = base();
  s.actions[0][find(s, 0, send_activation, 0)].peer = 2;
  EXPECT_THAT(complaint(s), HasSubstr("wrong peer"));
  s = base();
  std::swap(s.actions[1][find(s, 1, receive_activation, 0)],
            s.actions[1][find(s, 1, receive_activation, 1)]);
  // The second receive precedes the forward pass that needs it: posted early enough, but in the
  // wrong order.
  move_before(s, 1, find(s, 1, receive_activation, 0), 0);
  move_before(s, 1, find(s, 1, receive_activation, 1), 0);
  EXPECT_THAT(complaint(s), HasSubstr("messages do not match"));
}

TEST(Check, RefusesReductionsBeforeTheLastGradient) {
  Schedule s = base();
  move_before(s, 0, find(s, 0, reduce_gradients, 0), find(s, 0, weight_grad, 3));
  EXPECT_THAT(complaint(s), HasSubstr("still missing"));
}

// Every rank runs backward of micro-batch 0 before the forward pass that the other waits for.
Schedule circular() {
  Schedule s = make_schedule({ScheduleKind::one_f_one_b, 2, 2});
  // Rank 0 sends micro-batch 1 only after the gradient of 0; rank 1 needs it before.
  move_before(s, 0, find(s, 0, backward, 0), find(s, 0, forward, 1));
  move_before(s, 0, find(s, 0, receive_gradient, 0), find(s, 0, backward, 0));
  move_before(s, 1, find(s, 1, forward, 1), find(s, 1, backward, 0));
  return s;
}

TEST(Check, FindsADeadlockAndSaysWhere) {
  const std::string text = complaint(circular());
  EXPECT_THAT(text, HasSubstr("deadlocks with 2 ranks blocked"));
  EXPECT_THAT(text, HasSubstr("rank 0, action 3: backward of micro-batch 0"));
  EXPECT_THAT(text, HasSubstr("forward of micro-batch 1"));
}

TEST(Check, BuffersCanBeUsedInTurn) {
  // The invariant of ChunkBuffers: buffer m % count holds no other micro-batch.
  for (const ScheduleKind kind : all_kinds()) {
    const Schedule s = make_schedule({kind, 4, 11, 0, {{}}, 1});
    const ScheduleReport report = check_schedule(s);
    for (int rank = 0; rank < 4; ++rank) {
      for (int chunk = 0; chunk < s.chunks(); ++chunk) {
        const ChunkBuffers& buffers = report.ranks[rank].buffers[chunk];
        std::vector<int> activations(buffers.activations, -1);
        for (const Action& a : s.actions[rank]) {
          if (a.chunk != chunk) continue;
          if (a.kind == receive_activation) {
            int& owner = activations[a.micro_batch % buffers.activations];
            EXPECT_EQ(owner, -1);
            owner = a.micro_batch;
          }
          if (a.kind == forward && buffers.activations)
            activations[a.micro_batch % buffers.activations] = -1;
        }
      }
    }
  }
}

TEST(Check, SlotsOfTheHighestNumberInFlightAreEnough) {
  for (const ScheduleKind kind : all_kinds()) {
    const Schedule s = make_schedule({kind, 4, 12});
    const ScheduleReport report = check_schedule(s);
    for (int rank = 0; rank < 4; ++rank) {
      SlotTable slots(report.ranks[rank].peak_in_flight);
      std::map<int, std::pair<int, int>> holders;  // by slot: chunk and micro-batch
      for (const Action& a : s.actions[rank]) {
        const std::pair own(static_cast<int>(a.chunk), a.micro_batch);
        if (a.kind == forward) {
          EXPECT_TRUE(holders.emplace(slots.take(a.chunk, a.micro_batch), own).second);
        }
        if (a.kind != ActionKind::backward && a.kind != weight_grad) continue;
        const auto held = holders.find(slots.of(a.chunk, a.micro_batch));
        ASSERT_NE(held, holders.end());
        EXPECT_EQ(held->second, own);
        holders.erase(held);
        slots.release(a.chunk, a.micro_batch);
      }
      EXPECT_TRUE(holders.empty());
    }
  }
}

TEST(SlotTable, RefusesOneTooMany) {
  SlotTable slots(1);
  EXPECT_EQ(slots.take(1, 7), 0);
  EXPECT_ANY_THROW(slots.take(0, 8));
  EXPECT_ANY_THROW(slots.of(0, 7));
  slots.release(1, 7);
  EXPECT_EQ(slots.take(0, 8), 0);
}

TEST(Check, KnowsWhatOnlyBlockingTransfersDeadlock) {
  // Both ranks post their receive before their send: harmless unless posting blocks.
  Schedule s = make_schedule({ScheduleKind::one_f_one_b, 2, 1});
  move_before(s, 0, find(s, 0, receive_gradient, 0), find(s, 0, send_activation, 0));
  EXPECT_EQ(complaint(s), "");
  EXPECT_THAT(complaint(s, {.model = TransferModel::queued}), HasSubstr("deadlocks"));
  EXPECT_THAT(complaint(s, {.model = TransferModel::blocking}), HasSubstr("deadlocks"));
}

TEST(Check, CountsTimeBuffersAndMessages) {
  const Schedule s = make_schedule({ScheduleKind::one_f_one_b, 2, 3});
  const ScheduleReport r = check_schedule(s, {.times = {{2, 2, 2}}, .transfer_time = 1});
  EXPECT_DOUBLE_EQ(r.ranks[0].busy, 18);
  EXPECT_EQ(r.ranks[0].sends, 3);
  EXPECT_EQ(r.messages, 6);
  EXPECT_EQ(r.ranks[1].peak_in_flight, 1);
  EXPECT_GE(r.ranks[1].buffers[0].activations, 1);
  for (const RankReport& rank : r.ranks) EXPECT_NEAR(rank.busy + rank.idle, r.makespan, 1e-12);
  // Exposed transfers lengthen the run: forward, backward, and forward again at the end.
  EXPECT_GT(r.makespan, check_schedule(s, {.times = {{2, 2, 2}}}).makespan);
}

TEST(Check, EarlyReceivesCostBuffersOnly) {
  const Schedule s = make_schedule({ScheduleKind::one_f_one_b, 4, 8});
  const ScheduleReport late = check_schedule(s);
  const ScheduleReport early =
      check_schedule(make_schedule({ScheduleKind::one_f_one_b, 4, 8, 0, {{}}, 1}));
  EXPECT_DOUBLE_EQ(early.makespan, late.makespan);
  EXPECT_EQ(early.ranks[1].peak_in_flight, late.ranks[1].peak_in_flight);
  EXPECT_LE(early.ranks[1].buffers[0].activations, 3);
}

}  // namespace
}  // namespace trireme
