// Pipeline schedules: names, requirements and purpose. An entry here and a function KIND_passes in
// parallel/ define a schedule.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/choice.h"

namespace trireme {

// Model chunks (stages) per rank.
enum class ChunkRule : std::uint8_t {
  one,
  several,  // parallel.virtual_stages, 2 or more
  folded,   // always 2: stages go down the ranks and back up
};

// Columns: kind, name in parallel.schedule, chunks per rank, whether input and weight gradients are
// separate passes, and whether micro-batches alternate between chunks in groups of pp size.
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

// All schedules in the order of ScheduleKind.
std::span<const ScheduleEntry> all_schedules();
const ScheduleEntry& entry_of(ScheduleKind kind);
inline bool splits_backward(ScheduleKind kind) {
  return entry_of(kind).splits_backward;
}

// Names of the schedules with this chunk rule.
std::vector<std::string> schedule_names(ChunkRule rule);

}  // namespace trireme
