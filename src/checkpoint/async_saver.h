// Asynchronous saving during training: tensors are copied, then written by a background thread.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "checkpoint/writer.h"

namespace trireme {

// With one rank, a save completes by itself. With several, only the writing overlaps with training:
// the checkpoint is renamed into place by finish(), which start() and the end of the run call. To
// finish earlier, all ranks must agree on written() and then call finish().
class AsyncSaver {
 public:
  // `pool` is used for copying only, and not after start() returns.
  AsyncSaver(SaveOptions options, Ranks ranks = {}, ThreadPool* pool = &ThreadPool::global());
  // Waits for the thread. An unfinished save is dropped together with its error.
  ~AsyncSaver();

  // Collective. Finishes the previous save, then begins this one. Returns the seconds spent on
  // copying, which is the stall of training if the previous save was done. The copy buffers, as
  // large as the slices, are kept for the next save.
  double start(const CheckpointState& state, std::span<const SourceSlice> slices);

  // Whether this rank's part of the current save is on disk (or failed); true if none is active.
  bool written() const { return written_; }

  // Collective. Waits, renames the checkpoint into place and reports it; nullopt if no save is
  // active. Rethrows any error since start().
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
