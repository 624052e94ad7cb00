// Progress of a process with the files of a run, readable from other threads: it distinguishes a
// rank that writes slowly from one that hangs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace trireme {

class FileProgress {
 public:
  // While it lives, this process reports `what` as its activity ("is writing a checkpoint"; text
  // that outlives the object). Phases may begin within others and on several threads, and end in
  // any order: the one that began last is reported. Without a progress it does nothing.
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

  // Sets the number of bytes to be moved from now on; 0: not known.
  void expect(std::int64_t bytes) {
    done_ = 0;
    total_ = bytes;
  }
  // Bytes were written, or read; 0: another step (a rename, a file removed) is done.
  void moved(std::int64_t bytes) {
    done_ += bytes;
    ++moves_;
  }

  struct State {
    const char* what;  // null: not busy
    std::int64_t done, total;
    std::uint64_t moves;  // never goes back
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
  std::vector<const Phase*> phases_;  // in the order in which they began
  std::atomic<std::int64_t> done_ = 0, total_ = 0;
  std::atomic<std::uint64_t> moves_ = 0;
};

}  // namespace trireme
