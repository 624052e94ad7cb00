// Moves checkpoints that one rank can read from the disk of a rank to that of another.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/progress.h"
#include "comm/communicator.h"

namespace trireme {

// A checkpoint of a single rank: a manifest and at most one shard, in the folder of its step.
struct MovedCheckpoint {
  int peer;         // rank in the group
  fs::path folder;  // of checkpoints
  std::int64_t step;
};

// Sends the checkpoints in `sends`, and writes those received to the folders in `receives`; at most
// one from each rank to another. A received checkpoint gets its name only when all of its bytes are
// on the disk and match the checksums in its manifest; it replaces one of the same name. Errors of
// files do not interrupt the exchange, because other ranks wait for it. Returns the first one, or
// "". If `cancel` is not null, waits do not count for the watchdog, and the exchange ends early,
// with an error, once it is true: the job must then end too.
std::string exchange_checkpoints(Communicator& group, const std::vector<MovedCheckpoint>& sends,
                                 const std::vector<MovedCheckpoint>& receives,
                                 FileProgress* progress, const std::atomic<bool>* cancel = nullptr);

}  // namespace trireme
