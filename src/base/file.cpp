// File operations on POSIX systems.
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/as_error.h"
#include "base/error.h"
#include "base/opened_files.h"
#include "base/stop.h"

namespace trireme {
namespace {

std::atomic<std::int64_t> files_opened{0}, bytes_read{0};

[[noreturn]] void fail_errno(const char* what, const fs::path& path) {
  const int error = errno;
  throw Error(exit_code_of(error),
              fmt::format("cannot {} '{}': {}", what, path.string(), std::strerror(error)));
}

void rename_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail("cannot rename '{}' to '{}': {}", from.string(), to.string(), error.message());
}

}  // namespace

OpenedFiles opened_files() {
  return {files_opened, bytes_read};
}

File::File(const fs::path& path, Mode mode) : path_(path) {
  const int flags = mode == Mode::read     ? O_RDONLY
                    : mode == Mode::create ? O_RDWR | O_CREAT | O_TRUNC
                                           : O_RDWR | O_CREAT | O_APPEND;
  fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_errno(mode == Mode::read ? "read" : "write", path);
  if (mode == Mode::read) ++files_opened;
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

bool File::is_at_path() const {
  struct stat mine, there;
  return ::fstat(fd_, &mine) == 0 && ::stat(path_.c_str(), &there) == 0 &&
         mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
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
    if (n == 0) fail_input("'{}' ends prematurely at byte {}", path_.string(), offset);
    to += n;
    offset += static_cast<std::uint64_t>(n);
    count -= static_cast<std::size_t>(n);
    bytes_read += n;
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
    fail_input("'{}' has {} bytes, more than the maximum of {}", path.string(), size, max_bytes);
  }
  std::string bytes(size, '\0');
  file.read_at(0, bytes.data(), size);
  return bytes;
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_errno("open folder", folder);
  // EINVAL: this file system does not support syncing a folder.
  const bool synced = ::fsync(fd) == 0 || errno == EINVAL;
  const int error = errno;
  ::close(fd);
  errno = error;
  if (!synced) fail_errno("sync folder", folder);
}

void sync_parent(const fs::path& path) {
  sync_folder(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

NewFile::NewFile(const fs::path& path, std::string_view suffix)
    : path_(path),
      temporary_(path.string() + std::string(suffix)),
      file_(temporary_, File::Mode::create) {}

NewFile::~NewFile() {
  std::error_code ignored;  // the original error is more informative
  if (!temporary_.empty()) fs::remove(temporary_, ignored);
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)) {}

void NewFile::complete() {
  if (!file_.is_open()) return;
  file_.sync();
  file_.close();
}

void NewFile::keep() {
  complete();
  keep_unsynced();
  sync_parent(path_);
}

void NewFile::keep_unsynced() {
  if (file_.is_open()) file_.close();
  rename_file(temporary_, path_);
  temporary_.clear();
}

void write_file_durably(const fs::path& path, std::string_view bytes) {
  write_files_durably({{path, bytes}});
}

void write_files_durably(std::initializer_list<std::pair<fs::path, std::string_view>> files) {
  std::vector<NewFile> complete;
  complete.reserve(files.size());
  for (const auto& [path, bytes] : files) {
    NewFile& file = complete.emplace_back(path);
    file.file().write(bytes.data(), bytes.size());
    file.complete();
  }
  for (NewFile& file : complete) file.keep();
}

void rename_durably(const fs::path& from, const fs::path& to) {
  rename_file(from, to);
  sync_parent(to);
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> made;
  for (fs::path at = folder; !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
    made.push_back(at);
  }
  fs::create_directories(folder, error);
  if (error) {
    throw Error(exit_code_of(error.value()),
                fmt::format("cannot create folder '{}': {}", folder.string(), error.message()));
  }
  for (const fs::path& path : made) sync_parent(path);
}

MappedFile::MappedFile(const File& file) : size_(static_cast<std::size_t>(file.size())) {
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd_, 0);
  if (address == MAP_FAILED) fail_errno("map", file.path());
  data_ = static_cast<const std::byte*>(address);
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
