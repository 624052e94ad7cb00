// Tests of schedules of long steps: stored compactly and walked, they equal those written out.
#include "parallel/schedule/action_walk.h"

#include <gtest/gtest.h>

#include <ctime>

#include "parallel/all_kinds.h"
#include "parallel/check.h"

namespace trireme {
namespace {

using Kind = ScheduleKind;

// Generates every action of every micro-batch separately.
Schedule written_out(ScheduleRequest request) {
  request.written_out = true;
  return make_schedule(request);
}

// If a step is too short for loops, every micro-batch is listed.
TEST(ActionWalk, ShortStepsAreWrittenOut) {
  for (const Kind kind : all_kinds()) {
    const Schedule schedule = make_schedule({kind, 4, 16});
    EXPECT_TRUE(schedule.loops.empty());
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(all_actions(schedule, rank), schedule.actions[rank]);
  }
}

TEST(ActionWalk, LongStepsAreTheSameAsIfWrittenOut) {
  for (const Kind kind : all_kinds()) {
    for (const int p : {1, 2, 3, 4, 7, 9}) {
      for (const int early : {0, 1}) {
        for (const int m : {40 * p + 1, 57 * p + p / 2}) {
          SCOPED_TRACE(::testing::Message() << name_of(kind) << " p " << p << " m " << m);
          const Schedule looped = make_schedule({kind, p, m, 0, {{}}, early});
          EXPECT_FALSE(looped.loops.empty());
          const Schedule full = written_out({kind, p, m, 0, {{}}, early});
          ASSERT_TRUE(full.loops.empty());
          for (int rank = 0; rank < p; ++rank)
            ASSERT_EQ(all_actions(looped, rank), full.actions[rank]) << "rank " << rank;
        }
      }
    }
  }
}

TEST(ActionWalk, ReportsAreThoseOfTheStepWrittenOut) {
  for (const Kind kind : all_kinds()) {
    const ScheduleRequest request{kind, 4, 403, 0, {{}}, 1};
    const int stages = make_schedule(request).placement.stages();
    std::vector<PassTimes> uneven;
    for (int s = 0; s < stages; ++s) uneven.push_back({1 + 0.25 * s, 1.5, 0.5 + 0.125 * s});
    for (const auto& times : {std::vector<PassTimes>{PassTimes{}}, uneven}) {
      const ScheduleReport a = check_schedule(make_schedule(request), {.times = times});
      const ScheduleReport b = check_schedule(written_out(request), {.times = times});
      EXPECT_DOUBLE_EQ(a.makespan, b.makespan) << name_of(kind);
      EXPECT_DOUBLE_EQ(a.bubble, b.bubble);
      EXPECT_DOUBLE_EQ(a.longest_stall, b.longest_stall);
      EXPECT_EQ(a.messages, b.messages);
      for (int rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(a.ranks[rank].peak_in_flight, b.ranks[rank].peak_in_flight);
        EXPECT_EQ(a.ranks[rank].buffers.back().weight_grads,
                  b.ranks[rank].buffers.back().weight_grads);
      }
    }
  }
}

// A loop sends what the next rank does not receive.
TEST(ActionWalk, ChecksEveryTurn) {
  Schedule schedule = make_schedule({Kind::one_f_one_b, 3, 200});
  ASSERT_FALSE(schedule.loops.empty());
  EXPECT_NO_THROW(check_schedule(schedule));
  auto& actions = schedule.actions[1];
  const Loop loop = schedule.loops[1][0];
  for (std::size_t i = loop.begin; i < loop.end; ++i) {
    if (actions[i].kind == ActionKind::send_activation) ++actions[i].micro_batch;
  }
  EXPECT_ANY_THROW(check_schedule(schedule));
}

TEST(ActionWalk, HundredThousandMicroBatchesOn128RanksTakeSecondsAndLittleMemory) {
  for (const Kind kind : {Kind::one_f_one_b, Kind::zb1p}) {
    const std::clock_t begin = std::clock();
    const Schedule schedule = make_schedule({kind, 128, 100000, 0, {{}}, 1});
    std::size_t actions = 0;
    for (const auto& list : schedule.actions) actions += list.size();
    EXPECT_LT(actions * sizeof(Action), std::size_t{32} << 20);
    const ScheduleReport report = check_schedule(schedule);
    EXPECT_EQ(report.ranks[0].peak_in_flight, 128);
    // A processor-time limit that only catches gross mistakes: it once took 15 minutes and 10 GB.
    EXPECT_LT(std::clock() - begin, 10 * CLOCKS_PER_SEC) << name_of(kind);
  }
}

}  // namespace
}  // namespace trireme
