// The table of schedules.
#include "config/schedules.h"

#include <fmt/ranges.h>

#include "base/error.h"

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

const ScheduleEntry& find_schedule(std::string_view name) {
  for (const ScheduleEntry& entry : kSchedules)
    if (entry.name == name) return entry;
  fail_input("parallel.schedule is '{}'; it must be one of {}", name,
             fmt::join(schedule_names(), ", "));
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleEntry& entry : kSchedules) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> schedule_names(ChunkRule rule) {
  std::vector<std::string> names;
  for (const ScheduleEntry& entry : kSchedules)
    if (entry.chunks == rule) names.emplace_back(entry.name);
  return names;
}

}  // namespace trireme
