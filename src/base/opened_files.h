// How many files a process has opened to read: what a start asks of a shared file system.
#pragma once

#include <cstdint>

namespace trireme {

struct OpenedFiles {
  std::int64_t files = 0;
  std::int64_t bytes = 0;  // read, not counting what is mapped
};
// Since the process began, by base/file.h.
OpenedFiles opened_files();

}  // namespace trireme
