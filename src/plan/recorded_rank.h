// A rank of a layout on a recording device: planned and, if its record is needed,
// run.
#pragma once

#include <memory>

#include "backend/recording/device.h"
#include "comm/transport.h"
#include "train/engine/engine.h"

namespace trireme {

// `config` must be valid for that many ranks, with known vocabulary.
struct RecordedRank {
  RecordingDevice device;
  std::unique_ptr<Transport> transport;
  Engine engine;

  RecordedRank(const Config& config, const Target& target, RankOf rank,
               const std::shared_ptr<PlannedSchedules>& schedules);

  // Call before record_step().
  void allocate();
  // Returns the record of one step.
  Record record_step(std::int64_t micro_batches);
};

// Compute threads of a rank: from the machine file, or those of this process.
int threads_of(const Target& target);

}  // namespace trireme
