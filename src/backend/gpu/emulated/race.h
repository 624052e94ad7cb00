// ThreadSanitizer annotations of emulated threads and streams, so that it reports the races a GPU
// would have and not those of the emulation. No-ops in builds without it.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_THREAD__)
#define TRIREME_RACE_CHECKER 1
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void __tsan_read_range(void* p, unsigned long bytes);   // NOLINT: the checker's own names
void __tsan_write_range(void* p, unsigned long bytes);  // NOLINT
}
#define TRIREME_UNCHECKED __attribute__((no_sanitize("thread")))
#else
#define TRIREME_RACE_CHECKER 0
#define TRIREME_UNCHECKED
#endif

namespace trireme::gpu::emulated {

// Excludes the emulation's own accesses, which do not order emulated threads.
inline void begin_bookkeeping() {
#if TRIREME_RACE_CHECKER
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
}
inline void end_bookkeeping() {
#if TRIREME_RACE_CHECKER
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
}
struct Bookkeeping {
  Bookkeeping() { begin_bookkeeping(); }
  ~Bookkeeping() { end_bookkeeping(); }
};

// Work before release(p) happens before everything after a later acquire(p).
inline void release([[maybe_unused]] void* p) {
#if TRIREME_RACE_CHECKER
  __tsan_release(p);
#endif
}
inline void acquire([[maybe_unused]] void* p) {
#if TRIREME_RACE_CHECKER
  __tsan_acquire(p);
#endif
}

// Reports a read or write of the whole range, however it is actually performed.
inline void note_read([[maybe_unused]] const void* p, [[maybe_unused]] std::size_t bytes) {
#if TRIREME_RACE_CHECKER
  __tsan_read_range(const_cast<void*>(p), bytes);
#endif
}
inline void note_write([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) {
#if TRIREME_RACE_CHECKER
  __tsan_write_range(p, bytes);
#endif
}

// A thread of execution as seen by the race checker; null without it.
using Racer = void*;
inline Racer new_racer() {
#if TRIREME_RACE_CHECKER
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}
inline Racer this_racer() {
#if TRIREME_RACE_CHECKER
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}
// Switches to another racer, which has not synchronized with the current one.
TRIREME_UNCHECKED inline void become([[maybe_unused]] Racer racer) {
#if TRIREME_RACE_CHECKER
  __tsan_switch_to_fiber(racer, __tsan_switch_to_fiber_no_sync);
#endif
}

}  // namespace trireme::gpu::emulated
