// Loads a checkpoint on any parallel layout: the slices that a rank needs are assembled from the
// slices that other ranks wrote, and every byte used is verified.
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

// A checkpoint that exists but is corrupted.
struct DamagedCheckpoint : Error {
  explicit DamagedCheckpoint(const std::string& message) : Error(ExitCode::bad_input, message) {}
};

class CheckpointReader {
 public:
  // Opens the checkpoint found by find_checkpoint() and verifies its manifest; shards are opened on
  // demand. Refused (exit code 2) if there is none. Corruption throws DamagedCheckpoint; if the
  // path was a folder of checkpoints, the message of this and later calls names the newest valid
  // one in it, which may take as long as reading it.
  explicit CheckpointReader(const fs::path& path);
  // Opens the checkpoint in `folder` with a manifest that another rank has read, since thousands of
  // ranks reading one file of a shared file system would serialize.
  CheckpointReader(const fs::path& folder, const std::string& manifest);

  const fs::path& folder() const { return folder_; }
  const CheckpointState& state() const { return manifest_.state; }
  const Manifest& manifest() const { return manifest_; }
  const StoredTensor* find(std::string_view name) const { return manifest_.find(name); }

  struct ReadOptions {
    bool convert = false;        // between floating-point types; else types must match
    ThreadPool* pool = nullptr;  // nullptr: the calling thread
    FileProgress* progress = nullptr;
  };
  // Fills the targets. Refused (exit code 2) before reading: a missing tensor, or a shape or type
  // other than stored (the message has both). While reading: DamagedCheckpoint with file and
  // tensor; the targets are then undefined. Not thread-safe.
  void read(std::span<const TargetSlice> targets, const ReadOptions& options);
  void read(std::span<const TargetSlice> targets) {
    read(targets, {.pool = &ThreadPool::global()});
  }

  // Reads all data and verifies the checksums; `parts` callers can share the work, each verifying
  // one part.
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
  std::vector<SafetensorsHeader> headers_;  // by shard; data_begin == 0: not yet opened
};

// The newest fully valid checkpoint in a folder of checkpoints, other than `except`; empty if there
// is none. Reads all of it, and each newer one up to its first error.
fs::path newest_sound_checkpoint(const fs::path& folder, const fs::path& except = {},
                                 FileProgress* progress = nullptr);

}  // namespace trireme
