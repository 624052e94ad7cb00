// Files opened without following links are reopened through /proc by descriptor.
#include "view/own_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

fs::path path_of(int fd) {
  return fmt::format("/proc/self/fd/{}", fd);
}

}  // namespace

bool is_own_file(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  return fs::is_regular_file(status) || fs::is_symlink(status);
}

File open_own_file(const fs::path& path) {
  // Opening a pipe would block until it is opened for writing.
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  const std::string name = path.filename().string();
  if (fd < 0 && errno == ELOOP) fail("{} is a symbolic link, which is not followed", name);
  if (fd < 0) fail("cannot open {}: {}", name, std::strerror(errno));
  struct stat status {};
  try {
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) fail("{} is not a file", name);
    File file(path_of(fd), File::Mode::read);
    ::close(fd);
    return file;
  } catch (...) {
    ::close(fd);
    throw;
  }
}

std::string read_own_file(const fs::path& path, std::uint64_t max_bytes) {
  const File file = open_own_file(path);
  const std::uint64_t size = file.size();
  if (size > max_bytes)
    fail("{} has {} bytes: expected at most {}", path.filename().string(), size, max_bytes);
  std::string text(size, '\0');
  file.read_at(0, text.data(), text.size());
  return text;
}

OwnFolder::OwnFolder(const fs::path& folder)
    : fd_(::open(folder.c_str(), O_RDONLY | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC)) {}

OwnFolder::~OwnFolder() {
  if (is_open()) ::close(fd_);
}

fs::path OwnFolder::path() const {
  return path_of(fd_);
}

}  // namespace trireme
