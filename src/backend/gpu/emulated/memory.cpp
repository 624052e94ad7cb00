// Pages protected by a protection key.
#include "backend/gpu/emulated/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "backend/gpu/emulated/race.h"

namespace trireme::gpu::emulated {
namespace {

struct sigaction default_action;

// Prints the reason before the process dies as it would have anyway.
void explain(int signal, siginfo_t* info, void*) {
  if (info->si_code == SEGV_PKUERR) {
    constexpr char text[] =
        "trireme: emulated GPU: the host touched device memory, which it may do only through "
        "Device::read() and write()\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, sizeof text - 1);
  }
  ::sigaction(signal, &default_action, nullptr);
}

void explain_faults() {
  struct sigaction action = {};
  action.sa_sigaction = explain;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSEGV, &action, &default_action);
}

// -1: not supported by the processor or the kernel. New threads have no access to a
// key until they enable it.
int protection_key() {
  static const int key = [] {
    const int allocated = ::pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (allocated > 0) explain_faults();
    return allocated;
  }();
  return key;
}

struct Pages {
  std::size_t bytes;
  Side side;
};

std::mutex mutex;

std::map<const std::byte*, Pages>& all_pages() {
  static auto* const pages = new std::map<const std::byte*, Pages>;
  return *pages;
}

void* allocate(std::size_t bytes, Side side) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (side == Side::device && protection_key() > 0)
    ::pkey_mprotect(memory, bytes, PROT_READ | PROT_WRITE, protection_key());
  const std::lock_guard lock(mutex);
  all_pages()[static_cast<const std::byte*>(memory)] = {bytes, side};
  return memory;
}

void release(void* memory, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex);
    all_pages().erase(static_cast<const std::byte*>(memory));
  }
  ::munmap(memory, bytes);
}

struct Limit {
  std::int64_t total = 0, taken = 0;
};

const Limit& limit() {
  static const Limit limit = [] {
    Limit read;
    if (const char* const text = std::getenv("TRIREME_EMULATED_MEMORY")) {
      char* end = nullptr;
      read.total = std::strtoll(text, &end, 10);
      if (*end == ':') read.taken = std::strtoll(end + 1, nullptr, 10);
    }
    return read;
  }();
  return limit;
}
std::atomic<std::int64_t> taken{0};  // counted where there is a limit

thread_local int accesses = 0;

}  // namespace

std::int64_t device_memory_limit() {
  return limit().total;
}

std::int64_t device_memory_free() {
  return limit().total - limit().taken - taken;
}

void* allocate_device_memory(std::size_t bytes) {
  const auto more = static_cast<std::int64_t>(bytes);
  if (limit().total > 0 && (taken += more) > limit().total - limit().taken) {
    taken -= more;
    return nullptr;
  }
  return allocate(bytes, Side::device);
}
void release_device_memory(void* memory, std::size_t bytes) {
  if (limit().total > 0) taken -= static_cast<std::int64_t>(bytes);
  release(memory, bytes);
}
void* allocate_pinned(std::size_t bytes) {
  return allocate(bytes, Side::pinned);
}
void release_pinned(void* memory, std::size_t bytes) {
  release(memory, bytes);
}

Side side_of(const void* p, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto* const first = static_cast<const std::byte*>(p);
  auto next = all_pages().upper_bound(first);
  if (next == all_pages().begin()) return Side::host;
  const auto& [begin, pages] = *--next;
  return first + bytes <= begin + pages.bytes ? pages.side : Side::host;
}

bool host_access_is_noticed() {
  return protection_key() > 0;
}

TRIREME_UNCHECKED DeviceAccess::DeviceAccess() {
  if (accesses++ == 0 && protection_key() > 0) ::pkey_set(protection_key(), 0);
}
TRIREME_UNCHECKED DeviceAccess::~DeviceAccess() {
  if (--accesses == 0 && protection_key() > 0) ::pkey_set(protection_key(), PKEY_DISABLE_ACCESS);
}

}  // namespace trireme::gpu::emulated
