// Saving a checkpoint: every rank writes the slices of which it is the owner, rank 0 puts the whole
// into place. Until the last rename nothing that was saved before is touched.
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

// The ranks that save together, and how they communicate. One process needs neither function.
struct Ranks {
  int rank = 0;
  int size = 1;
  // Gives rank 0 what every rank passes, in rank order; the others get nothing.
  std::function<std::vector<std::string>(const std::string&)> gather;
  // Gives every rank what rank 0 passes.
  std::function<std::string(const std::string&)> broadcast;
  // Told what this rank writes, if there is one; outlives the save.
  FileProgress* progress = nullptr;
};

struct SaveOptions {
  fs::path folder;                  // of checkpoints; made if needed; shared by all ranks
  std::string program = "trireme";  // name and version of the writer
  std::int64_t keep = 0;            // newest checkpoints to keep; 0: all
};

struct SaveReport {
  fs::path folder;         // of the checkpoint
  std::int64_t bytes = 0;  // of all ranks
  double seconds = 0;      // from begin to end
  std::string warning;     // an old checkpoint that could not be removed, or ""
};

// One save in its three phases. Only the first and the last communicate, so that write() can run in
// a thread of its own during training.
//
//   CheckpointWriter writer(options, state, ranks);  // all ranks together
//   writer.write(slices, &pool);                     // each rank for itself
//   SaveReport report = writer.commit();             // all ranks together
//
// If any rank fails, commit() throws the same message on every rank, the partial folder is removed,
// and earlier checkpoints and `latest` are as before. So they are if the writer is destroyed
// without commit().
class CheckpointWriter {
 public:
  // Makes the partial folder. Throws on every rank if rank 0 cannot.
  CheckpointWriter(SaveOptions options, CheckpointState state, Ranks ranks = {});
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Writes this rank's shard and makes it durable; call once. Never throws: commit() reports what
  // went wrong. The slices' bytes must stay unchanged meanwhile; slices without data are made by
  // `producer`. Without a pool the calling thread does all.
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
  std::string report_;             // of write(), for rank 0
  bool partial_is_there_ = false;  // known on rank 0 only
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// All three phases in one call.
SaveReport save_checkpoint(const SaveOptions& options, const CheckpointState& state,
                           std::span<const SourceSlice> slices, const Ranks& ranks = {},
                           ThreadPool* pool = &ThreadPool::global());

}  // namespace trireme
