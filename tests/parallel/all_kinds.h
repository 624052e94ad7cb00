// All kinds of schedules, for tests that iterate over them.
#pragma once

#include <vector>

#include "config/schedules.h"

namespace trireme {

inline std::vector<ScheduleKind> all_kinds() {
  std::vector<ScheduleKind> kinds;
  for (const ScheduleEntry& entry : all_schedules()) kinds.push_back(entry.kind);
  return kinds;
}

}  // namespace trireme
