// Progress of a process on a run's files, readable from other threads: it distinguishes a slow rank
// from a hung one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace trireme {

class FileProgress {
 public:
  // While it exists, the process reports `what` as its activity ("is writing a checkpoint"); the
  // string must outlive the object. Phases may nest, run on several threads and end in any order:
  // the most recently started one is reported. No effect if `progress` is null.
  class Phase {
   public:
    Phase(FileProgress* progress, const char* what) : progress_(progress), what_(what) {
      if (progress_) progress_->begin(this);
    }
    ~Phase() {
      if (progress_) progress_->end(this);
    }
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    friend class FileProgress;
    FileProgress* progress_;
    const char* what_;
  };

  // Sets the number of bytes to transfer from now on; 0: unknown.
  void expect(std::int64_t bytes) {
    done_ = 0;
    total_ = bytes;
  }
  // Adds bytes written or read; 0 for other progress (a rename or a removal).
  void moved(std::int64_t bytes) {
    done_ += bytes;
    ++moves_;
  }

  struct State {
    const char* what;  // null: idle
    std::int64_t done, total;
    std::uint64_t moves;  // never decreases
  };
  State state() const {
    const std::lock_guard lock(mutex_);
    return {phases_.empty() ? nullptr : phases_.back()->what_, done_, total_, moves_};
  }

 private:
  void begin(const Phase* phase) {
    const std::lock_guard lock(mutex_);
    phases_.push_back(phase);
  }
  void end(const Phase* phase) {
    const std::lock_guard lock(mutex_);
    phases_.erase(std::ranges::find(phases_, phase));
  }

  mutable std::mutex mutex_;
  std::vector<const Phase*> phases_;  // in order of their start
  std::atomic<std::int64_t> done_ = 0, total_ = 0;
  std::atomic<std::uint64_t> moves_ = 0;
};

}  // namespace trireme
