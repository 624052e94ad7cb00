// A lock on a file that is never removed.
#include "train/run/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace trireme {

RunLock::RunLock(const std::string& folder) {
  const std::string path = folder + "/lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) return;  // the first write to the folder reports the reason
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno != EWOULDBLOCK) {
    problem_ = std::strerror(errno);
    return;
  }
  ::close(file_);
  file_ = -1;
  fail_input(
      "another process is training in '{}': wait until it has ended, or give this run its own "
      "folder (run.dir)",
      folder);
}

bool is_locked(const std::string& folder) {
  const int file = ::open((folder + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  const bool locked = ::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(file);
  return locked;
}

RunLock::~RunLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace trireme
