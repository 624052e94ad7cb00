// A preloaded library that injects a file fault into one process, in its n-th call of a kind on
// files whose path contains a text. TRIREME_TEST_FILE_FAULT is "RANK CALL NUMBER WHAT TEXT": CALL
// is open, read, write or sync; WHAT is a signal, or `full` (no space left), `broken` (an I/O
// error), or `torn` (half is written, then the process is killed). Each rank writes the number of
// calls to TRIREME_TEST_FILE_COUNTS.RANK.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "once.h"

namespace {

using namespace trireme::testing_cli;

struct FileFault {
  bool here = false;
  char call[16] = "", what[16] = "", text[256] = "";
  long number = 0;
  std::atomic<long> calls{0};

  FileFault() {
    int wanted = -1;
    const char* words = std::getenv("TRIREME_TEST_FILE_FAULT");
    if (words &&
        std::sscanf(words, "%d %15s %ld %15s %255s", &wanted, call, &number, what, text) == 5)
      here = number == 0 || is_rank(wanted);
  }
  ~FileFault() {
    const char* file = std::getenv("TRIREME_TEST_FILE_COUNTS");
    if (!file || calls == 0) return;
    const int rank = launched_rank();
    char path[4096];
    std::snprintf(path, sizeof path, "%s.%d", file, rank < 0 ? 0 : rank);
    if (std::FILE* out = std::fopen(path, "w")) {
      std::fprintf(out, "%ld\n", calls.load());
      std::fclose(out);
    }
  }
  // Returns whether the fault happens in this call; signals have been raised by then.
  bool happens(const char* kind, const char* path) {
    if (!here || std::strcmp(kind, call) != 0 || !std::strstr(path, text)) return false;
    if (++calls != number || !is_to_happen()) return false;
    if (const int signal = std::atoi(what)) {
      ::kill(::getpid(), signal);
      return false;
    }
    return true;
  }
  bool happens(const char* kind, int fd) {
    if (!here) return false;
    char link[64], path[4096];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = ::readlink(link, path, sizeof path - 1);
    if (length <= 0) return false;
    path[length] = '\0';
    return happens(kind, path);
  }
  int error() const { return std::strcmp(what, "full") == 0 ? ENOSPC : EIO; }
  bool tears() const { return std::strcmp(what, "torn") == 0; }
};

FileFault& fault() {
  static FileFault the;
  return the;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

template <class Call, class... More>
ssize_t write_with(Call next, int fd, const void* data, size_t size, More... more) {
  if (!fault().happens("write", fd)) return next(fd, data, size, more...);
  if (fault().tears()) {
    next(fd, data, size / 2, more...);
    ::kill(::getpid(), SIGKILL);
  }
  errno = fault().error();
  return -1;
}

template <class Call>
ssize_t read_with(Call next, int fd, void* data, size_t size, off_t at) {
  if (!fault().happens("read", fd)) return next(fd, data, size, at);
  errno = fault().error();
  return -1;
}

template <class Call>
int open_with(Call next, const char* path, int flags, mode_t mode) {
  if (!fault().happens("open", path)) return next(path, flags, mode);
  errno = fault().error();
  return -1;
}

mode_t mode_of(int flags, va_list more) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

using Write = ssize_t (*)(int, const void*, size_t);
using WriteAt = ssize_t (*)(int, const void*, size_t, off_t);
using ReadAt = ssize_t (*)(int, void*, size_t, off_t);
using Open = int (*)(const char*, int, ...);

}  // namespace

// Programs use the names with 64 if they request 64-bit offsets, and the others if not.
extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  static const auto next = real<Write>("write");
  return write_with(next, fd, data, size);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  static const auto next = real<WriteAt>("pwrite");
  return write_with(next, fd, data, size, at);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off_t at) {
  static const auto next = real<WriteAt>("pwrite64");
  return write_with(next, fd, data, size, at);
}
ssize_t pread(int fd, void* data, size_t size, off_t at) {
  static const auto next = real<ReadAt>("pread");
  return read_with(next, fd, data, size, at);
}
ssize_t pread64(int fd, void* data, size_t size, off_t at) {
  static const auto next = real<ReadAt>("pread64");
  return read_with(next, fd, data, size, at);
}
int fsync(int fd) {
  static const auto next = real<int (*)(int)>("fsync");
  if (!fault().happens("sync", fd)) return next(fd);
  errno = fault().error();
  return -1;
}
int open(const char* path, int flags, ...) {
  static const auto next = real<Open>("open");
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return open_with(next, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  static const auto next = real<Open>("open64");
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return open_with(next, path, flags, mode);
}

}  // extern "C"
