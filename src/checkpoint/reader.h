// Loading a checkpoint on any layout: whichever slices a rank asks for are assembled from the
// slices that other ranks once wrote, and every byte that is used is checked.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/manifest.h"
#include "checkpoint/progress.h"
#include "checkpoint/region.h"
#include "tensors/safetensors.h"

namespace trireme {

// A checkpoint that is there and is not what was written.
struct DamagedCheckpoint : Error {
  explicit DamagedCheckpoint(const std::string& message) : Error(ExitCode::bad_input, message) {}
};

class CheckpointReader {
 public:
  // Opens the checkpoint that find_checkpoint() finds and checks its manifest; shards are opened
  // when they are needed. Rejected (exit code 2) if there is none. Damage throws DamagedCheckpoint;
  // if a folder of checkpoints led to it, the message of this and of all later calls names the
  // newest valid checkpoint there, which may take as long as reading it.
  explicit CheckpointReader(const fs::path& path);
  // The checkpoint in `folder`, whose manifest another rank has read: of thousands of ranks that
  // read one file of a shared system each would wait for all others.
  CheckpointReader(const fs::path& folder, const std::string& manifest);

  const fs::path& folder() const { return folder_; }
  const CheckpointState& state() const { return manifest_.state; }
  const Manifest& manifest() const { return manifest_; }
  const StoredTensor* find(std::string_view name) const { return manifest_.find(name); }

  struct ReadOptions {
    bool convert = false;        // between floating-point types; otherwise types must be equal
    ThreadPool* pool = nullptr;  // nullptr: the calling thread does all
    FileProgress* progress = nullptr;
  };
  // Fills the targets. Rejected (exit code 2) before a byte is read: a missing tensor, another
  // shape or type than stored (both are named). While reading: DamagedCheckpoint, naming file and
  // tensor; the targets are then undefined. Not thread-safe.
  void read(std::span<const TargetSlice> targets, const ReadOptions& options);
  void read(std::span<const TargetSlice> targets) {
    read(targets, {.pool = &ThreadPool::global()});
  }

  // Reads everything and compares it with its checksums; of `parts` callers that share the work
  // each takes one part.
  void verify(ThreadPool* pool = &ThreadPool::global(), int part = 0, int parts = 1,
              FileProgress* progress = nullptr);

 private:
  struct Job;
  class OpenShards;
  class Worker;

  void take(const std::string& manifest);
  const SafetensorsHeader& header_of(std::size_t shard);
  std::uint64_t data_begin(const StoredTensor& tensor, const StoredSlice& slice);
  std::string target_fault(const TargetSlice& target, bool convert) const;
  void check_targets(std::span<const TargetSlice> targets, bool convert) const;
  void add_jobs(const TargetSlice& target, std::vector<Job>& jobs);
  void run(std::vector<Job> jobs, ThreadPool* pool, FileProgress* progress);
  [[noreturn]] void refuse(const std::string& why) const;

  fs::path folder_;
  bool by_latest_ = false;
  Manifest manifest_;
  std::vector<SafetensorsHeader> headers_;  // by shard; data_begin == 0: not opened yet
};

// The newest checkpoint of a folder of checkpoints that is undamaged to the last byte, other than
// `except`; empty if there is none. Reads all of it, and of every newer one up to its first damage.
fs::path newest_sound_checkpoint(const fs::path& folder, const fs::path& except = {},
                                 FileProgress* progress = nullptr);

}  // namespace trireme
