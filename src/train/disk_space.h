// Whether the disk has room for the checkpoints of a run, asked before the first step.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace trireme {

struct DiskSpace {
  std::int64_t checkpoint = 0;  // bytes of one, about
  std::int64_t more = 1;        // checkpoints that will lie there in addition to those that do now
  std::int64_t free = 0;        // bytes

  bool has_room_for_one() const { return checkpoint <= free; }
  bool has_room() const { return checkpoint * more <= free; }
};

// Space on the disk of the run's folder, which need not exist. `config` knows its vocabulary.
DiskSpace disk_space(const Config& config);

// Refuses (exit code 2) a run that could not save once. Returns a warning where not all checkpoints
// that it keeps have room, or "".
std::string check_disk(const DiskSpace& space, const Config& config);

}  // namespace trireme
