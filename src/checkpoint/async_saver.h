// Saving during training: the tensors are copied, then a thread writes them.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "checkpoint/writer.h"

namespace trireme {

// With one rank a save completes by itself. With several, only writing happens during training; the
// ranks put the checkpoint into place in finish(), which start() and the end of the run call. To
// have it earlier, let all ranks agree on written() and then call finish().
class AsyncSaver {
 public:
  // `pool` is for copying only and not used after start() returns.
  AsyncSaver(SaveOptions options, Ranks ranks = {}, ThreadPool* pool = &ThreadPool::global());
  // Waits for the thread. A save that was not finished is dropped, and its error with it.
  ~AsyncSaver();

  // All ranks together. Finishes the save before this one, then begins. Returns the seconds that
  // copying took, which is what training stalls if the save before is done. The copies' memory,
  // as large as the slices, is kept for the next save.
  double start(const CheckpointState& state, std::span<const SourceSlice> slices);

  // Whether this rank's part of the running save is on disk (or has failed); true if none runs.
  bool written() const { return written_; }

  // All ranks together. Waits, puts the checkpoint into place and reports it; nothing if no save is
  // under way. Throws what went wrong since start().
  std::optional<SaveReport> finish();

 private:
  void copy_slices(std::span<const SourceSlice> slices);
  void work();

  SaveOptions options_;
  Ranks ranks_;
  ThreadPool* pool_;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t memory_bytes_ = 0;
  std::vector<SourceSlice> copies_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::optional<SaveReport> report_;
  std::exception_ptr error_;
  std::thread thread_;
  std::atomic<bool> written_{true};
};

}  // namespace trireme
