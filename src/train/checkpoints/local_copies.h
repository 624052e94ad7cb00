// Copies local checkpoints to other nodes while training continues.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/transport.h"
#include "train/checkpoints/checkpoint_exchange.h"

namespace trireme {

// A finished copy of one step.
struct CopyReport {
  std::int64_t step = 0;
  double seconds = 0;   // on this rank
  std::string failure;  // of any rank, or ""
};

// start() and finish() are collective. The messages have a group of their own, so that they and the
// collectives of training do not wait for each other.
class LocalCopies {
 public:
  // All outlive it. Collective.
  LocalCopies(Transport& transport, FileProgress* files);
  // Interrupts a copy that was not finished: only for a job that ends.
  ~LocalCopies();

  // Starts to send this rank's checkpoint of `step` and to receive those of other ranks.
  void start(std::int64_t step, std::vector<MovedCheckpoint> sends,
             std::vector<MovedCheckpoint> receives);
  // Whether a copy was started that finish() has not returned.
  bool started() const { return step_ >= 0; }
  // Whether this rank still sends or receives.
  bool busy() const { return busy_; }
  // Waits for the copy; nullopt if none was started. The same failure on all ranks.
  std::optional<CopyReport> finish();

 private:
  void work(const std::vector<MovedCheckpoint>& sends,
            const std::vector<MovedCheckpoint>& receives);

  Transport& transport_;
  FileProgress* files_;
  std::unique_ptr<Communicator> group_;
  std::int64_t step_ = -1;
  double seconds_ = 0;
  std::string failure_;
  std::atomic<bool> busy_{false}, canceled_{false};
  std::thread thread_;
};

}  // namespace trireme
