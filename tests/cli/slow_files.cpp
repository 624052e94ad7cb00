// A preloaded library that makes files slow or fail at a chosen point:
//   TRIREME_TEST_FSYNC_MS=n        an fsync of a checkpoint's file takes n milliseconds
//   TRIREME_TEST_FSYNC_LOG=file    receives the path of every synced file, one per line
//   TRIREME_TEST_NO_EXCHANGE=1     names cannot be exchanged, as on NFS
//   TRIREME_TEST_FLOCK=n           the file system has no locks: flock fails with error n
//   TRIREME_TEST_KILL_RENAME=end   kills the process after a rename to a name with this suffix
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int fsync(int fd) {
  static const auto next = real<int (*)(int)>("fsync");
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, path, sizeof path - 2);
  if (length > 0) {
    path[length] = '\n';
    path[length + 1] = '\0';
    if (const char* log = std::getenv("TRIREME_TEST_FSYNC_LOG")) {
      const int file = ::open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
      if (file >= 0) {
        (void)!::write(file, path, static_cast<std::size_t>(length) + 1);
        ::close(file);
      }
    }
    const char* pause = std::getenv("TRIREME_TEST_FSYNC_MS");
    if (pause && std::strstr(path, "/checkpoints/step-"))
      ::usleep(static_cast<useconds_t>(1000 * std::atoi(pause)));
  }
  return next(fd);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static const auto next = real<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  if (std::getenv("TRIREME_TEST_NO_EXCHANGE")) {
    errno = EINVAL;
    return -1;
  }
  return next(from_folder, from, to_folder, to, flags);
}

int flock(int file, int operation) {
  static const auto next = real<int (*)(int, int)>("flock");
  if (const char* error = std::getenv("TRIREME_TEST_FLOCK")) {
    errno = std::atoi(error);
    return -1;
  }
  return next(file, operation);
}

int rename(const char* from, const char* to) noexcept {
  static const auto next = real<int (*)(const char*, const char*)>("rename");
  const int result = next(from, to);
  const char* end = std::getenv("TRIREME_TEST_KILL_RENAME");
  if (result == 0 && end && std::strlen(to) >= std::strlen(end) &&
      std::strcmp(to + std::strlen(to) - std::strlen(end), end) == 0) {
    ::kill(::getpid(), SIGKILL);
  }
  return result;
}

}  // extern "C"
