// Names stretches of what the host enqueues for the vendors' profilers (NVTX, roctx): steps,
// passes, segments of a stage and ops. The profiler's library is opened at run time, where
// TRIREME_RANGES asks for it; without it a range costs a comparison.
#pragma once

#include <cstdint>

namespace trireme {

class ProfilerRange {
 public:
  enum class Level : std::uint8_t { none, step, pass, segment, op };

  // `name`: a literal; a number below 0 is not shown.
  ProfilerRange(Level level, const char* name, std::int64_t number = -1)
      : open_(level <= deepest_) {
    if (open_) push(name, number);
  }
  ~ProfilerRange() {
    if (open_) pop();
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

  // Reads TRIREME_RANGES (step, pass, segment or op: the finest that is named) and opens the first
  // library that is there, or the file that TRIREME_RANGES_LIBRARY names. Fails (exit code 2) where
  // none can be opened. Before the first step; again is harmless.
  static void open_library();

 private:
  static void push(const char* name, std::int64_t number);
  static void pop();

  static inline Level deepest_ = Level::none;
  const bool open_;
};

}  // namespace trireme
