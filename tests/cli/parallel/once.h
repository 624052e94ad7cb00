// Helpers for preloaded libraries that inject a fault: in which process it happens, and that it
// happens only once, however often the job is restarted.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace trireme::testing_cli {

// Returns the rank that a launcher gave this process; -1 without a launcher.
inline int launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return -1;
}

// A run without a launcher is rank 0.
inline bool is_rank(int wanted) {
  const int rank = launched_rank();
  return wanted == (rank < 0 ? 0 : rank);
}

// TRIREME_TEST_ONCE names a file that is created when the fault happens, and then contains the
// process ID. Without the variable the fault happens every time.
inline bool is_to_happen() {
  const char* path = std::getenv("TRIREME_TEST_ONCE");
  if (!path) return true;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return false;
  char text[32];
  const int length = std::snprintf(text, sizeof text, "%d\n", static_cast<int>(::getpid()));
  (void)!::write(file, text, static_cast<std::size_t>(length));
  ::close(file);
  return true;
}

}  // namespace trireme::testing_cli
