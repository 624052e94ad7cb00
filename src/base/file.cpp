// Files on a POSIX system.
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <utility>

#include "base/as_error.h"
#include "base/error.h"
#include "base/stop.h"

namespace trireme {
namespace {

[[noreturn]] void fail_errno(const char* what, const fs::path& path) {
  const int error = errno;
  throw Error(exit_code_of(error),
              fmt::format("cannot {} '{}': {}", what, path.string(), std::strerror(error)));
}

}  // namespace

File::File(const fs::path& path, Mode mode) : path_(path) {
  const int flags = mode == Mode::read     ? O_RDONLY
                    : mode == Mode::create ? O_RDWR | O_CREAT | O_TRUNC
                                           : O_RDWR | O_CREAT | O_APPEND;
  fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_errno(mode == Mode::read ? "read" : "write", path);
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

std::uint64_t File::size() const {
  struct stat info;
  if (::fstat(fd_, &info) != 0) fail_errno("look at", path_);
  if (S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    fail_errno("read", path_);
  }
  return static_cast<std::uint64_t>(info.st_size);
}

void File::write(const void* bytes, std::size_t count) {
  check_stopped();
  const char* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t n = ::write(fd_, from, count);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno("write", path_);
    from += n;
    count -= static_cast<std::size_t>(n);
  }
}

void File::write_at(std::uint64_t offset, const void* bytes, std::size_t count) {
  check_stopped();
  const char* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t n = ::pwrite(fd_, from, count, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno("write", path_);
    from += n;
    offset += static_cast<std::uint64_t>(n);
    count -= static_cast<std::size_t>(n);
  }
}

void File::read_at(std::uint64_t offset, void* bytes, std::size_t count) const {
  char* to = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t n = ::pread(fd_, to, count, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno("read", path_);
    if (n == 0) fail_input("'{}' ends at byte {}, before it should", path_.string(), offset);
    to += n;
    offset += static_cast<std::uint64_t>(n);
    count -= static_cast<std::size_t>(n);
  }
}

void File::truncate(std::uint64_t size) {
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) fail_errno("resize", path_);
}

void File::sync() {
  if (::fsync(fd_) != 0) fail_errno("sync", path_);
}

void File::close() {
  if (::close(std::exchange(fd_, -1)) != 0) fail_errno("close", path_);
}

std::string read_file(const fs::path& path, std::uint64_t max_bytes) {
  const File file(path, File::Mode::read);
  const std::uint64_t size = file.size();
  if (size > max_bytes) {
    fail_input("'{}' has {} bytes, more than the {} that are read", path.string(), size, max_bytes);
  }
  std::string bytes(size, '\0');
  file.read_at(0, bytes.data(), size);
  return bytes;
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_errno("open folder", folder);
  const int result = ::fsync(fd);
  ::close(fd);
  if (result != 0) fail_errno("sync folder", folder);
}

Unfinished::~Unfinished() {
  std::error_code ignored;  // the error that led here says more
  if (!path_.empty()) fs::remove(path_, ignored);
}

void Unfinished::keep_as(const fs::path& path) {
  std::error_code error;
  fs::rename(path_, path, error);
  if (error) fail("cannot rename '{}' to '{}': {}", path_.string(), path.string(), error.message());
  path_.clear();
  sync_folder(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

void write_file_durably(const fs::path& path, std::string_view bytes) {
  write_files_durably({{path, bytes}});
}

void write_files_durably(std::initializer_list<std::pair<fs::path, std::string_view>> files) {
  std::list<Unfinished> beside;
  for (const auto& [path, bytes] : files) {
    File file(path.string() + ".tmp", File::Mode::create);
    beside.emplace_back(file.path());
    file.write(bytes.data(), bytes.size());
    file.sync();
    file.close();
  }
  for (const auto& [path, bytes] : files) {
    beside.front().keep_as(path);
    beside.pop_front();
  }
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return;
  throw Error(exit_code_of(error.value()),
              fmt::format("cannot create folder '{}': {}", folder.string(), error.message()));
}

MappedFile::MappedFile(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_errno("read", path);
  struct stat info;
  if (::fstat(fd, &info) != 0 || S_ISDIR(info.st_mode)) {
    ::close(fd);
    errno = EISDIR;
    fail_errno("read", path);
  }
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) {
      ::close(fd);
      fail_errno("map", path);
    }
    data_ = static_cast<const std::byte*>(address);
  }
  ::close(fd);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace trireme
