// One process at a time trains in a run's folder.
#pragma once

#include <string>

namespace trireme {

// Holds the lock of a folder while it lives; the system releases it when the process ends, however
// it ends.
class RunLock {
 public:
  // Refuses (exit code 2) a folder that another process holds.
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Why the lock is not held, where the file system has no locks; "": it is held.
  const std::string& problem() const { return problem_; }

 private:
  int file_ = -1;
  std::string problem_;
};

// Whether a process holds the lock of the folder now. False where that cannot be told.
bool is_locked(const std::string& folder);

}  // namespace trireme
