// Checks disk space for the checkpoints of a run before the first step.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace trireme {

struct DiskSpace {
  std::int64_t checkpoint = 0;  // approximate bytes of one checkpoint
  std::int64_t more = 1;        // checkpoints that will exist in addition to current ones
  std::int64_t free = 0;        // bytes

  bool has_room_for_one() const { return checkpoint <= free; }
  bool has_room() const { return checkpoint * more <= free; }
};

// Space on the disk of the run's folder, which need not exist. `config` knows its vocabulary.
DiskSpace disk_space(const Config& config);

// Rejects (exit code 2) a run that lacks space for a single checkpoint. Returns a warning if the
// checkpoints that it keeps do not all fit, or "".
std::string check_disk(const DiskSpace& space, const Config& config);

}  // namespace trireme
