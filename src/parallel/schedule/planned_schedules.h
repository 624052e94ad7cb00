// Schedules with their costs, each made once and shared by the engines of a process.
#pragma once

#include <map>
#include <mutex>

#include "parallel/check.h"
#include "parallel/schedule/schedule.h"

namespace trireme {

struct PlannedSchedule {
  Schedule schedule;
  ScheduleReport report;
};

// Thread-safe: a search over layouts plans many that differ in nothing that a schedule depends on.
class PlannedSchedules {
 public:
  // Returns the schedule of make_schedule() with the report of check_schedule(), and fails as they
  // do. The reference stays valid as long as this object.
  const PlannedSchedule& of(const ScheduleRequest& request);

 private:
  struct Entry {
    std::once_flag made;
    PlannedSchedule planned;
  };

  Entry& entry(const ScheduleRequest& request);

  std::mutex mutex_;  // guards the map, not its entries
  std::map<ScheduleRequest, Entry> entries_;
};

}  // namespace trireme
