// The file, its I/O threads, and handling of disk errors.
#include "parallel/states/transfer_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/thread.h"
#include "runtime/memory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// One thread reads while the other writes.
constexpr int threads = 2;

std::string system_text(int error) {
  return std::error_code(error, std::generic_category()).message();
}

// Opens an unnamed file or, if the file system has none, unlinks it right after creation.
int open_nameless(const std::string& folder, int flags) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return file;
  std::string name = folder + "/offload.XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC | flags);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

// Returns 0 or errno.
int transfer(int file, bool reads, const TransferFile::Piece& piece) {
  std::int64_t done = 0;
  while (done < piece.bytes) {
    const auto left = static_cast<std::size_t>(piece.bytes - done);
    const ssize_t moved = reads ? ::pread(file, piece.memory + done, left, piece.offset + done)
                                : ::pwrite(file, piece.memory + done, left, piece.offset + done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return errno;
    if (moved == 0) return EIO;  // the file was truncated
    done += moved;
  }
  return 0;
}

}  // namespace

struct TransferFile::Shared {
  struct Task {
    Ticket ticket;
    bool reads;
    std::vector<Piece> pieces;
    std::int64_t index;
  };

  TransferUse use{};
  std::string folder;
  int file = -1;      // for the I/O threads
  int buffered = -1;  // for checkpoints
  bool direct = false;
  std::vector<std::thread> workers;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> waiting;
  std::set<Ticket> open;  // not finished
  Ticket next = 1;
  std::string problem;  // of the first task that failed
  bool ends = false;
  bool stuck = false;  // a system call does not return
  Trace* trace = nullptr;

  ~Shared() {
    if (file >= 0) ::close(file);
    if (buffered >= 0) ::close(buffered);
  }

  std::string failure(bool reads, std::int64_t bytes, int error) const {
    return fmt::format(
        "offload.path = '{}': {} {} of {} failed: {}; the run cannot continue, but the last "
        "checkpoint is untouched: {}, and start it again",
        folder, reads ? "reading" : "writing", bytes_to_text(bytes), use.what, system_text(error),
        use.instead);
  }

  void run(const Task& task) {
    const auto begin = Clock::now();
    std::int64_t bytes = 0;
    std::string found;
    for (const Piece& piece : task.pieces) {
      bytes += piece.bytes;
      const int error = transfer(file, task.reads, piece);
      if (error != 0 && found.empty()) found = failure(task.reads, piece.bytes, error);
    }
    const std::lock_guard lock(mutex);
    if (trace) {
      trace->completed(task.reads ? "from the file" : "to the file",
                       {task.reads ? use.reads : use.writes, task.index}, bytes, begin,
                       Clock::now());
    }
    if (problem.empty()) problem = found;
    open.erase(task.ticket);
    changed.notify_all();
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ends || !waiting.empty(); });
      if (waiting.empty()) return;
      const Task task = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      run(task);
      lock.lock();
    }
  }

  Ticket start(bool reads, std::vector<Piece> pieces, std::int64_t index) {
    const std::lock_guard lock(mutex);
    const Ticket ticket = next++;
    open.insert(ticket);
    waiting.push_back({ticket, reads, std::move(pieces), index});
    changed.notify_all();
    return ticket;
  }
};

TransferFile::TransferFile(const TransferUse& use, const std::string& folder, std::int64_t bytes,
                           double timeout_s)
    : shared_(std::make_shared<Shared>()), timeout_s_(timeout_s) {
  std::error_code error;
  fs::create_directories(folder, error);
  Shared& s = *shared_;
  s.use = use;
  s.folder = folder;
  s.file = open_nameless(folder, O_DIRECT);
  s.direct = s.file >= 0;
  if (!s.direct) s.file = open_nameless(folder, 0);
  if (s.file < 0) {
    fail_input(
        "offload.path = '{}': cannot create a file there: {}; choose a writable folder on a local "
        "disk",
        folder, system_text(errno));
  }
  const int full = ::posix_fallocate(s.file, 0, bytes);
  if (full != 0) {
    fail_input(
        "offload.path = '{}': {} of this rank need {}, which cannot be reserved there: {}; free "
        "some space, or {}",
        folder, use.what, bytes_to_text(bytes), system_text(full), use.instead);
  }
  s.buffered = ::open(fmt::format("/proc/self/fd/{}", s.file).c_str(), O_RDWR | O_CLOEXEC);
  if (s.buffered < 0)
    fail("offload.path = '{}': cannot reopen the file: {}", folder, system_text(errno));
  for (int i = 0; i < threads; ++i) {
    s.workers.push_back(start_thread("raise the limit on processes, or offload nothing to a file",
                                     [shared = shared_] { shared->work(); }));
  }
}

TransferFile::~TransferFile() {
  bool stuck = false;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->ends = true;
    if (!shared_->problem.empty()) {
      for (const Shared::Task& task : shared_->waiting) shared_->open.erase(task.ticket);
      shared_->waiting.clear();
    }
    shared_->changed.notify_all();
    // Transfers in progress use memory that is about to be freed.
    stuck = shared_->stuck ||
            !shared_->changed.wait_for(lock, std::chrono::duration<double>(timeout_s_),
                                       [&] { return shared_->open.empty(); });
  }
  for (std::thread& worker : shared_->workers) stuck ? worker.detach() : worker.join();
  shared_->workers.clear();
}

TransferFile::Ticket TransferFile::read(std::vector<Piece> pieces, std::int64_t index) {
  return shared_->start(true, std::move(pieces), index);
}

TransferFile::Ticket TransferFile::write(std::vector<Piece> pieces, std::int64_t index) {
  return shared_->start(false, std::move(pieces), index);
}

void TransferFile::wait(Ticket ticket) {
  std::unique_lock lock(shared_->mutex);
  const bool done = shared_->changed.wait_for(lock, std::chrono::duration<double>(timeout_s_), [&] {
    return !shared_->problem.empty() || !shared_->open.contains(ticket);
  });
  if (!shared_->problem.empty()) fail("{}", shared_->problem);
  if (done) return;
  shared_->stuck = true;
  fail(
      "offload.path = '{}': a transfer of {} did not end within train.timeout_s = {} seconds: the "
      "disk is too slow or hangs; the last checkpoint is untouched: {}, or increase "
      "train.timeout_s, and start the run again",
      shared_->folder, shared_->use.what, timeout_s_, shared_->use.instead);
}

void TransferFile::wait_for_all() {
  for (;;) {
    Ticket first = 0;
    {
      const std::lock_guard lock(shared_->mutex);
      if (!shared_->open.empty()) first = *shared_->open.begin();
    }
    wait(first);
    if (first == 0) return;
  }
}

void TransferFile::read_now(std::int64_t offset, std::int64_t bytes,
                            const std::function<void(const std::byte* host)>& use) const {
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
  const int error = transfer(shared_->buffered, true, {buffer.get(), offset, bytes});
  if (error != 0) fail("{}", shared_->failure(true, bytes, error));
  use(buffer.get());
}

void TransferFile::write_now(std::int64_t offset, std::int64_t bytes,
                             const std::function<void(std::byte* host)>& fill) {
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
  fill(buffer.get());
  const int error = transfer(shared_->buffered, false, {buffer.get(), offset, bytes});
  if (error != 0) fail("{}", shared_->failure(false, bytes, error));
}

void TransferFile::settle() {
  if (::fdatasync(shared_->buffered) != 0)
    fail("offload.path = '{}': {}", shared_->folder, system_text(errno));
  ::posix_fadvise(shared_->buffered, 0, 0, POSIX_FADV_DONTNEED);
}

bool TransferFile::is_direct() const {
  return shared_->direct;
}

void TransferFile::set_trace(Trace* trace) {
  std::unique_lock lock(shared_->mutex);
  // While an error propagates, transfers may have failed or be stuck: do not wait for those.
  shared_->changed.wait_for(lock, std::chrono::duration<double>(timeout_s_), [&] {
    return shared_->stuck || !shared_->problem.empty() || shared_->open.empty();
  });
  shared_->trace = trace;
}

}  // namespace trireme
