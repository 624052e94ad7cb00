// What a process does with the files of checkpoints right now, for whoever asks from another
// thread: a rank that writes slowly is told from one that hangs.
#pragma once

#include <atomic>
#include <cstdint>

namespace trireme {

class FileProgress {
 public:
  // While it lives, this process is said to be busy with `what` ("is writing a checkpoint"; text
  // that outlives the object). One at a time. Without a progress it does nothing.
  class Phase {
   public:
    Phase(FileProgress* progress, const char* what) : progress_(progress) {
      if (progress_) progress_->what_ = what;
    }
    ~Phase() {
      if (progress_) progress_->what_ = nullptr;
    }
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    FileProgress* progress_;
  };

  // So many bytes are to be moved from now on; 0: not known.
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
  State state() const { return {what_, done_, total_, moves_}; }

 private:
  std::atomic<const char*> what_ = nullptr;
  std::atomic<std::int64_t> done_ = 0, total_ = 0;
  std::atomic<std::uint64_t> moves_ = 0;
};

}  // namespace trireme
