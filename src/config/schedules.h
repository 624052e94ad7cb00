// The pipeline schedules: their names, what each needs and what it is for. An entry here and the
// function KIND_passes in parallel/ make a schedule.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/choice.h"

namespace trireme {

// Stages of the model on each rank.
enum class ChunkRule : std::uint8_t {
  one,
  several,  // as parallel.virtual_stages says, 2 or more
  folded,   // always 2: the stages go down the ranks and up again
};

// Kind, name in parallel.schedule, stages on a rank, whether input and weight gradients are
// separate passes, and whether micro-batches take turns in groups of as many as there are ranks.
// clang-format off
#define TRIREME_SCHEDULES(X)                                  \
  X(gpipe,       "gpipe",       ChunkRule::one,     false, false) \
  X(one_f_one_b, "1f1b",        ChunkRule::one,     false, false) \
  X(interleaved, "interleaved", ChunkRule::several, false, true)  \
  X(zb1p,        "zb1p",        ChunkRule::one,     true,  false) \
  X(zbv,         "zbv",         ChunkRule::folded,  true,  false) \
  X(vhalf,       "vhalf",       ChunkRule::folded,  true,  false)
// clang-format on

TRIREME_CHOICE(ScheduleKind, TRIREME_SCHEDULES)

struct ScheduleEntry {
  ScheduleKind kind;
  std::string_view name;
  ChunkRule chunks;
  bool splits_backward;
  bool in_groups;
};

// In the order of ScheduleKind.
std::span<const ScheduleEntry> all_schedules();
const ScheduleEntry& entry_of(ScheduleKind kind);
inline bool splits_backward(ScheduleKind kind) {
  return entry_of(kind).splits_backward;
}

// Names of those with such a rule.
std::vector<std::string> schedule_names(ChunkRule rule);

}  // namespace trireme
