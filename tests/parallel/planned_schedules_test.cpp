// Tests that schedules are generated once per request.
#include "parallel/schedule/planned_schedules.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"

namespace trireme {
namespace {

ScheduleRequest request_of(ScheduleKind kind, int ranks, int micro_batches) {
  ScheduleRequest request;
  request.kind = kind;
  request.ranks = ranks;
  request.micro_batches = micro_batches;
  return request;
}

TEST(PlannedSchedules, EqualWhatIsMadeAlone) {
  PlannedSchedules schedules;
  const ScheduleRequest request = request_of(ScheduleKind::vhalf, 4, 12);
  const PlannedSchedule& planned = schedules.of(request);
  EXPECT_EQ(planned.schedule.actions, make_schedule(request).actions);
  EXPECT_EQ(planned.report.makespan, check_schedule(planned.schedule).makespan);
}

TEST(PlannedSchedules, AreMadeOnceForEachRequest) {
  PlannedSchedules schedules;
  const ScheduleRequest request = request_of(ScheduleKind::zb1p, 4, 8);
  const PlannedSchedule& first = schedules.of(request);
  EXPECT_EQ(&schedules.of(request), &first);
  ScheduleRequest early = request;
  early.early_receives = 1;
  EXPECT_NE(&schedules.of(early), &first);
  EXPECT_NE(&schedules.of(request_of(ScheduleKind::zb1p, 4, 9)), &first);
  EXPECT_NE(&schedules.of(request_of(ScheduleKind::one_f_one_b, 4, 8)), &first);
}

TEST(PlannedSchedules, ServeThreadsWithTheSameSchedule) {
  PlannedSchedules schedules;
  std::vector<const PlannedSchedule*> found(4);
  std::vector<std::thread> threads;
  for (const PlannedSchedule*& mine : found) {
    threads.emplace_back(
        [&] { mine = &schedules.of(request_of(ScheduleKind::one_f_one_b, 2, 4)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const PlannedSchedule* one : found) EXPECT_EQ(one, found[0]);
}

TEST(PlannedSchedules, RefuseAnImpossibleRequestEachTime) {
  PlannedSchedules schedules;
  for (int time = 0; time < 2; ++time) {
    EXPECT_THROW(schedules.of(request_of(ScheduleKind::one_f_one_b, 2, 0)), Error);
  }
}

}  // namespace
}  // namespace trireme
