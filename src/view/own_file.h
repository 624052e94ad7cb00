// Opens files in a run's folder on behalf of a page viewer. The folder may belong to another
// user: a symbolic link in it could point to a file that the reader may read but its creator may
// not.
#pragma once

#include "base/file.h"

namespace trireme {

// Whether open_own_file() has something to open or to reject: not a folder, a pipe or a
// device.
bool is_own_file(const fs::path& path);

// Opens for reading. Fails if it is a symbolic link or not a regular file.
File open_own_file(const fs::path& path);

// Reads the whole file, of at most `max_bytes`.
std::string read_own_file(const fs::path& path, std::uint64_t max_bytes);

// A folder within a run's folder. Its contents are opened by path() / name.
class OwnFolder {
 public:
  // is_open() is false if it is missing, a symbolic link, or not a folder.
  explicit OwnFolder(const fs::path& folder);
  ~OwnFolder();
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  bool is_open() const { return fd_ >= 0; }
  // Refers to the folder that was opened, even if its name now refers to another one.
  fs::path path() const;

 private:
  int fd_ = -1;
};

}  // namespace trireme
