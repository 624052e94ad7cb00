// A map of schedules by request, whose entries are made outside of its lock.
#include "parallel/schedule/planned_schedules.h"

namespace trireme {

PlannedSchedules::Entry& PlannedSchedules::entry(const ScheduleRequest& request) {
  const std::lock_guard lock(mutex_);
  return entries_[request];
}

const PlannedSchedule& PlannedSchedules::of(const ScheduleRequest& request) {
  Entry& found = entry(request);
  std::call_once(found.made, [&] {
    found.planned.schedule = make_schedule(request);
    found.planned.report = check_schedule(found.planned.schedule);
  });
  return found.planned;
}

}  // namespace trireme
