// A lock that allows only one process at a time to train in a run's folder.
#pragma once

#include <string>

namespace trireme {

// Holds a folder's lock during its lifetime; the system releases it when the process ends in any
// way.
class RunLock {
 public:
  // Rejects (exit code 2) a folder locked by another process.
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Why the lock is not held, if the file system does not support locks; "": it is held.
  const std::string& problem() const { return problem_; }

 private:
  int file_ = -1;
  std::string problem_;
};

// Whether any process currently holds the folder's lock. False if this cannot be determined.
bool is_locked(const std::string& folder);

}  // namespace trireme
