// Files of a run's folder, opened on behalf of a viewer of the page. The folder may belong to
// another user: a symbolic link in it could lead to any file that the reader may read and its
// writer may not.
#pragma once

#include "base/file.h"

namespace trireme {

// Whether there is something that open_own_file() opens or refuses: not a folder, a pipe or a
// device.
bool is_own_file(const fs::path& path);

// Opens it for reading. Fails where it is a symbolic link or no regular file.
File open_own_file(const fs::path& path);

// Reads the whole file, of at most `max_bytes`.
std::string read_own_file(const fs::path& path, std::uint64_t max_bytes);

// A folder within that of a run. What it holds is opened by path() / name.
class OwnFolder {
 public:
  // Not there, a symbolic link, or no folder: is_open() is false.
  explicit OwnFolder(const fs::path& folder);
  ~OwnFolder();
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  bool is_open() const { return fd_ >= 0; }
  // Leads to the folder that was opened, whatever has its name now.
  fs::path path() const;

 private:
  int fd_ = -1;
};

}  // namespace trireme
