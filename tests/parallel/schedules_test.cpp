// Tests of the schedule generators: valid, free of deadlock, and with the bubbles and the memory of
// the literature.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "base/error.h"
#include "base/random.h"
#include "parallel/all_kinds.h"
#include "parallel/check.h"
#include "parallel/schedule/schedule.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using Kind = ScheduleKind;

// Checks a schedule under every transfer behavior, including early receives.
ScheduleReport check_all(ScheduleRequest request, const std::vector<PassTimes>& times) {
  const Schedule schedule = make_schedule(request);
  for (const auto model : {TransferModel::queued, TransferModel::blocking}) {
    check_schedule(schedule, {.times = times, .transfer_time = 0.25, .model = model});
  }
  for (const int passes : {1, 3}) {
    request.early_receives = passes;
    check_schedule(make_schedule(request), {.times = times, .transfer_time = 0.25});
  }
  return check_schedule(schedule, {.times = times});
}

TEST(Schedules, AreLegalForManyShapes) {
  for (const Kind kind : all_kinds()) {
    for (const int p : {1, 2, 3, 4, 5, 8}) {
      for (const int m : {1, 2, 3, 5, 7, 8, 16, 17}) {
        for (const int v : {2, 3, 4}) {
          if (entry_of(kind).chunks != ChunkRule::several && v > 2) continue;
          SCOPED_TRACE(::testing::Message()
                       << name_of(kind) << " p " << p << " m " << m << " v " << v);
          const int chunks = kind == Kind::interleaved ? v : 0;
          const std::vector<PassTimes> times = {PassTimes{}};
          EXPECT_NO_THROW(check_all({kind, p, m, chunks}, times));
        }
      }
    }
  }
}

// Returns different times for every stage, from a tenth to ten times the usual.
std::vector<PassTimes> uneven_times(int stages, int seed) {
  std::vector<PassTimes> times(stages);
  const auto draw = [&](int i) {
    return std::pow(
        10.0, 2 * uniform(5, static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(i)) - 1);
  };
  for (int i = 0; i < stages; ++i) times[i] = {draw(3 * i), draw(3 * i + 1), draw(3 * i + 2)};
  return times;
}

TEST(Schedules, AreLegalForUnevenTimes) {
  for (const Kind kind : all_kinds()) {
    for (const int p : {2, 3, 4, 7}) {
      const int chunks = entry_of(kind).chunks == ChunkRule::one ? 1 : 2;
      for (int seed = 0; seed < 6; ++seed) {
        const auto times = uneven_times(p * chunks, seed);
        EXPECT_NO_THROW(check_all({kind, p, 3 * p + seed, chunks, times}, times))
            << name_of(kind) << " p " << p << " seed " << seed;
      }
    }
  }
}

ScheduleReport report(Kind kind, int p, int m, int chunks = 0, PassTimes times = {}) {
  return check_schedule(make_schedule({kind, p, m, chunks, {times}}), {.times = {times}});
}

TEST(Bubbles, OfGpipeAnd1f1bAreRanksMinusOneTimesAllPasses) {
  for (const int p : {1, 2, 4, 7, 16}) {
    for (const int m : {p, 2 * p + 1, 5 * p}) {
      for (const Kind kind : {Kind::gpipe, Kind::one_f_one_b}) {
        const ScheduleReport r = report(kind, p, m, 0, {1, 1.25, 0.5});
        EXPECT_DOUBLE_EQ(r.longest_stall, (p - 1) * 2.75);
        EXPECT_NEAR(r.bubble, (p - 1.0) / (m + p - 1), 1e-12);
        EXPECT_DOUBLE_EQ(r.makespan, (m + p - 1) * 2.75);
      }
    }
  }
}

TEST(Bubbles, OfInterleavedShrinkWithVirtualStages) {
  for (const int p : {2, 4, 8}) {
    for (const int v : {2, 3, 4}) {
      for (const int m : {p, p + 1, 3 * p, 3 * p + 1}) {
        // The time of a chunk is that of a rank divided by v.
        const ScheduleReport r = report(Kind::interleaved, p, m, v, {1.0 / v, 1.0 / v, 1.0 / v});
        EXPECT_NEAR(r.longest_stall, (p - 1) * 3.0 / v, 1e-9) << p << " " << v << " " << m;
      }
    }
  }
}

TEST(Bubbles, OfZb1pAreAThirdAtTheMemoryOf1f1b) {
  for (const int p : {2, 3, 4, 8, 16}) {
    for (const int m : {p, 2 * p, 4 * p + 1}) {
      const ScheduleReport zb = report(Kind::zb1p, p, m);
      const ScheduleReport base = report(Kind::one_f_one_b, p, m);
      EXPECT_DOUBLE_EQ(zb.longest_stall, base.longest_stall / 3);
      EXPECT_EQ(zb.peak_memory, base.peak_memory);
      EXPECT_EQ(zb.messages, base.messages);
    }
  }
}

TEST(Bubbles, OfZbvVanishAtTheMemoryOf1f1bWithTwiceTheMessages) {
  for (const int p : {2, 3, 4, 8, 16}) {
    for (const int m : {2 * p - 1, 2 * p, 5 * p}) {
      const ScheduleReport zbv = report(Kind::zbv, p, m, 2, {0.5, 0.5, 0.5});
      const ScheduleReport base = report(Kind::one_f_one_b, p, m);
      EXPECT_NEAR(zbv.longest_stall, 0, 1e-9) << p << " " << m;
      EXPECT_LE(zbv.peak_memory, base.peak_memory);
      EXPECT_EQ(zbv.messages, 2 * base.messages);
      // Only the warm-up remains: half a forward pass per rank.
      EXPECT_NEAR(zbv.makespan, 3.0 * m + 0.5 * (p - 1), 1e-9);
    }
  }
}

TEST(Bubbles, OfVHalfAreHalfAtHalfTheMemory) {
  for (const int p : {2, 3, 4, 5, 8, 16, 32}) {
    for (const int m : {2 * p, 4 * p + 1}) {
      const ScheduleReport vhalf = report(Kind::vhalf, p, m, 2, {0.5, 0.5, 0.5});
      const ScheduleReport base = report(Kind::one_f_one_b, p, m);
      EXPECT_LE(vhalf.longest_stall, base.longest_stall / 2) << p << " " << m;
      // Half, plus the cost of the two turns of the V: one micro-batch of a stage.
      EXPECT_LE(vhalf.peak_memory, base.peak_memory / 2 + 1) << p << " " << m;
    }
  }
}

TEST(Memory, OfEachRankIsThatOfTheSchedule) {
  const ScheduleReport base = report(Kind::one_f_one_b, 4, 8);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(base.ranks[rank].peak_in_flight, 4 - rank);
  EXPECT_EQ(report(Kind::gpipe, 4, 8).peak_memory, 8);
  const ScheduleReport zb = report(Kind::zb1p, 4, 12);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_LE(zb.ranks[rank].peak_in_flight, 4);
    EXPECT_GE(zb.ranks[rank].buffers[0].weight_grads, 1);
  }
}

TEST(Schedules, WithFewMicroBatchesStillRun) {
  for (const Kind kind : all_kinds()) {
    const ScheduleReport r = report(kind, 8, 1);
    EXPECT_LE(r.bubble, 0.9) << name_of(kind);
  }
}

TEST(Schedules, GainWhatTheyPromiseWhenTimesAreUneven) {
  // The head makes the last stage slower; weight gradients are cheaper than input gradients.
  std::vector<PassTimes> times(4, {1, 1.1, 0.8});
  times.back() = {1.3, 1.4, 1.0};
  const auto length = [&](Kind kind) {
    return check_schedule(make_schedule({kind, 4, 16, 1, times}), {.times = times}).makespan;
  };
  EXPECT_LT(length(Kind::zb1p), length(Kind::one_f_one_b));
}

TEST(Schedules, TheSameRequestGivesTheSameSchedule) {
  for (const Kind kind : all_kinds()) {
    EXPECT_EQ(make_schedule({kind, 4, 9}).actions, make_schedule({kind, 4, 9}).actions);
  }
}

TEST(Schedules, AreRefusedWithWhatWouldDo) {
  const auto refusal = [](const ScheduleRequest& request) -> std::string {
    try {
      make_schedule(request);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({Kind::zbv, 4, 8, 3}), HasSubstr("parallel.virtual_stages = 2"));
  EXPECT_THAT(refusal({Kind::interleaved, 4, 8, 1}), HasSubstr("at least 2"));
  EXPECT_THAT(refusal({Kind::one_f_one_b, 4, 8, 2}), HasSubstr("interleaved"));
  EXPECT_THAT(refusal({Kind::one_f_one_b, 0, 8}), HasSubstr("ranks"));
  EXPECT_THAT(refusal({Kind::one_f_one_b, 4, 0}), HasSubstr("at least 1 micro-batch"));
  EXPECT_THAT(refusal({Kind::one_f_one_b, 4, 8, 1, std::vector<PassTimes>(3)}),
              HasSubstr("3 stages"));
  EXPECT_THAT(refusal({Kind::one_f_one_b, 4, 8, 1, {{-1, 1, 1}}}), HasSubstr("-1"));
  EXPECT_THAT(refusal({Kind::gpipe, 4096, 1 << 30}), HasSubstr("too many"));
  EXPECT_FALSE(find_choice<Kind>("1F1B"));
  for (const Kind kind : all_kinds()) EXPECT_EQ(find_choice<Kind>(name_of(kind)), kind);
}

TEST(Schedules, OfLargePipelinesAreMadeAndCheckedAtOnce) {
  const std::clock_t begin = std::clock();  // processor time
  for (const Kind kind : all_kinds()) {
    const Schedule schedule = make_schedule({kind, 16, 320});
    check_schedule(schedule);
    EXPECT_LT(schedule.actions[0].size() * sizeof(Action), std::size_t{1} << 20);
  }
  EXPECT_LT(std::clock() - begin, 3 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace trireme
