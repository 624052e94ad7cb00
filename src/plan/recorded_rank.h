// A rank of a layout on a device that writes down what it does: planned, and run where its record
// is wanted.
#pragma once

#include <memory>

#include "backend/recording/device.h"
#include "comm/transport.h"
#include "train/engine.h"

namespace trireme {

// `config` is valid for that many ranks and knows its vocabulary.
struct RecordedRank {
  RecordingDevice device;
  std::unique_ptr<Transport> transport;
  Engine engine;

  RecordedRank(const Config& config, const Target& target, RankOf rank,
               const std::shared_ptr<PlannedSchedules>& schedules);

  // Before record_step().
  void allocate();
  // The record of one step.
  Record record_step(std::int64_t micro_batches);
};

// Compute threads of a rank: what the machine's file says, or those of this process.
int threads_of(const Target& target);

}  // namespace trireme
