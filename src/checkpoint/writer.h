// Saves a checkpoint: every rank writes the slices it owns, rank 0 renames the whole into place.
// Earlier checkpoints are untouched until the last rename.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/manifest.h"
#include "checkpoint/progress.h"
#include "checkpoint/region.h"
#include "checkpoint/shard_writer.h"

namespace trireme {

// The group of ranks that save together, and its communication. One process needs neither.
struct Ranks {
  int rank = 0;
  int size = 1;
  // Gathers a string from every rank on rank 0, in rank order; other ranks get an empty list.
  std::function<std::vector<std::string>(const std::string&)> gather;
  // Broadcasts rank 0's string to every rank.
  std::function<std::string(const std::string&)> broadcast;
  // Receives this rank's progress if not null; must outlive the save.
  FileProgress* progress = nullptr;
};

struct SaveOptions {
  fs::path folder;                  // of checkpoints; created if needed; shared by all ranks
  std::string program = "trireme";  // name and version of the writer
  std::int64_t keep = 0;            // newest checkpoints to keep; 0: all
};

struct SaveReport {
  fs::path folder;         // the checkpoint's folder
  std::int64_t bytes = 0;  // of all ranks
  double seconds = 0;      // wall time of the save
  std::string warning;     // old checkpoint that could not be removed, or ""
};

// One save in three phases. Only the first and the last communicate, so that write() can run in its
// own thread during training.
//
//   CheckpointWriter writer(options, state, ranks);  // all ranks together
//   writer.write(slices, &pool);                     // each rank for itself
//   SaveReport report = writer.commit();             // all ranks together
//
// If any rank fails, commit() throws the same error on every rank, the partial folder is removed,
// and earlier checkpoints and `latest` are unchanged; the same if the writer is destroyed without
// commit().
class CheckpointWriter {
 public:
  // Creates the partial folder. Throws on every rank if rank 0 fails.
  CheckpointWriter(SaveOptions options, CheckpointState state, Ranks ranks = {});
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Writes this rank's shard durably; call once. Never throws: commit() reports errors. The bytes
  // of slices must not change meanwhile; slices without data are filled by `producer`. Without a
  // pool, the calling thread does the work.
  void write(std::span<const SourceSlice> slices, ThreadPool* pool = nullptr,
             const Producer& producer = {}) noexcept;

  SaveReport commit();

 private:
  Manifest join(const std::vector<std::string>& reports) const;
  void put_in_place(const Manifest& manifest);
  std::string complete(const std::vector<std::string>& reports);
  std::string clean_up() const;
  std::string from_rank_0(const std::string& text) const;
  [[noreturn]] void fail_everywhere(const std::string& failure) const;

  SaveOptions options_;
  CheckpointState state_;
  Ranks ranks_;
  fs::path partial_, final_;
  std::string report_;             // from write(), for rank 0
  bool partial_is_there_ = false;  // valid on rank 0 only
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// All three phases in one call.
SaveReport save_checkpoint(const SaveOptions& options, const CheckpointState& state,
                           std::span<const SourceSlice> slices, const Ranks& ranks = {},
                           ThreadPool* pool = &ThreadPool::global());

}  // namespace trireme
