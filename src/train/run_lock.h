// One process at a time trains in a run's folder.
#pragma once

#include <string>

namespace trireme {

// Holds the lock of a folder while it lives; the system lets go of it when the process ends,
// however it ends.
class RunLock {
 public:
  // Refuses (exit code 2) a folder that another process holds. File systems without locks are
  // accepted as they are.
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int file_ = -1;
};

// Whether a process holds the lock of the folder now. False where that cannot be told.
bool is_locked(const std::string& folder);

}  // namespace trireme
