// The table of schedules.
#include "config/schedules.h"

namespace trireme {
namespace {

#define TRIREME_SCHEDULE_ENTRY(kind, name, chunks, splits_backward, in_groups) \
  {ScheduleKind::kind, name, chunks, splits_backward, in_groups},
constexpr ScheduleEntry kSchedules[] = {TRIREME_SCHEDULES(TRIREME_SCHEDULE_ENTRY)};
#undef TRIREME_SCHEDULE_ENTRY

}  // namespace

std::span<const ScheduleEntry> all_schedules() {
  return kSchedules;
}

const ScheduleEntry& entry_of(ScheduleKind kind) {
  return kSchedules[static_cast<std::size_t>(kind)];
}

std::vector<std::string> schedule_names(ChunkRule rule) {
  std::vector<std::string> names;
  for (const ScheduleEntry& entry : kSchedules)
    if (entry.chunks == rule) names.emplace_back(entry.name);
  return names;
}

}  // namespace trireme
