// Frequent checkpoints on each node's local disk, in addition to those in the run's folder: fast to
// write, but lost with the node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/progress.h"
#include "checkpoint/writer.h"
#include "comm/transport.h"
#include "config/config.h"
#include "train/engine.h"

namespace trireme {

// Every rank stores everything that it owns in its own folder, as a checkpoint that only this rank
// can read: no rank needs another node's disk. All methods are collective.
class LocalCheckpoints {
 public:
  // All outlive it.
  LocalCheckpoints(const Config& config, Engine& engine, Transport* transport, FileProgress* files)
      : config_(config), engine_(engine), transport_(transport), files_(files) {}

  bool active() const { return config_.checkpoint.local_interval > 0; }

  // Returns the newest step that is intact on every rank, belongs to this run and layout, and
  // directly follows the checkpoint `shared` in the run's folder (-1: follows none).
  std::optional<std::int64_t> newest(std::int64_t shared);
  // The run resumes from `step`: later saves belong to an abandoned branch.
  void forget_after(std::int64_t step);
  // Loads the local checkpoint of `step`.
  CheckpointState load(std::int64_t step);
  // Saves, keeping the two newest ones. `shared` as above. Returns an error message, on rank 0, or
  // "": errors are not fatal, because the run does not depend on local checkpoints.
  std::string save(CheckpointState state, std::int64_t shared);

 private:
  int rank() const { return transport_ ? transport_->place().rank : 0; }
  const fs::path& folder();
  // A step and the branch of the run that saved it: the same number on all ranks.
  struct Saved {
    std::int64_t step = -1, branch = 0;
    bool operator==(const Saved&) const = default;
  };
  std::vector<Saved> usable(std::int64_t shared);

  const Config& config_;
  Engine& engine_;
  Transport* transport_;
  FileProgress* files_;
  fs::path folder_;
  std::string branch_;  // random for each start, drawn at its first save
};

}  // namespace trireme
