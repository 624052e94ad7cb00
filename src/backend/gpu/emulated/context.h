// Switching between stacks within one thread of the system: about fifteen nanoseconds each.
#pragma once

#include <cstddef>

#include "backend/gpu/emulated/race.h"

namespace trireme::gpu::emulated {

// A stack of its own with a guard page below it, and where it stands while something else runs.
class Context {
 public:
  Context() = default;  // of whoever is running now: has no stack of its own
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  // The next switch to this context calls `body`, which never returns.
  void start(void (*body)());

  Racer racer = nullptr;

 private:
  friend void switch_context(Context& from, Context& to);

  void* stack_ = nullptr;
  void* at_ = nullptr;
};

// Continues in `to`, and comes back when somebody switches to `from`.
void switch_context(Context& from, Context& to);

}  // namespace trireme::gpu::emulated
