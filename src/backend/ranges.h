// Profiler ranges (NVTX, roctx) around the work that the host enqueues: steps, passes, segments of
// a stage and ops. The profiler's library is opened at run time if TRIREME_RANGES is set; otherwise
// a range costs one comparison.
#pragma once

#include <cstdint>

namespace trireme {

class ProfilerRange {
 public:
  enum class Level : std::uint8_t { none, step, pass, segment, op };

  // `name` must be a literal; negative numbers are not shown.
  ProfilerRange(Level level, const char* name, std::int64_t number = -1)
      : open_(level <= deepest_) {
    if (open_) push(name, number);
  }
  ~ProfilerRange() {
    if (open_) pop();
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

  // Reads TRIREME_RANGES (step, pass, segment or op: the finest level to record) and opens the
  // first library found, or the file in TRIREME_RANGES_LIBRARY. Fails (exit code 2) if none opens.
  // Call before the first step; repeated calls are harmless.
  static void open_library();

 private:
  static void push(const char* name, std::int64_t number);
  static void pop();

  static inline Level deepest_ = Level::none;
  const bool open_;
};

}  // namespace trireme
