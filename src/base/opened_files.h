// Counts files opened for reading, a measure of the load on a shared file system at startup.
#pragma once

#include <cstdint>

namespace trireme {

struct OpenedFiles {
  std::int64_t files = 0;
  std::int64_t bytes = 0;  // bytes read, excluding memory-mapped files
};
// Totals since the process started, for files opened through base/file.h.
OpenedFiles opened_files();

}  // namespace trireme
