// Records the signal in an atomic; writers poll it.
#include "base/stop.h"

#include <atomic>
#include <csignal>

#include "base/error.h"
#include "base/signal_handlers.h"

namespace trireme {
namespace {

// Written by the handler, read by all threads that write files.
std::atomic<int> pending = 0;
static_assert(std::atomic<int>::is_always_lock_free, "else a handler must not touch it");

}  // namespace

void stoppable(const std::function<void()>& work) {
  try {
    pending = 0;
    // SA_RESETHAND: a second signal ends the process immediately.
    const SignalHandlers handlers(
        {SIGINT, SIGTERM, SIGHUP}, [](int signal) { pending = signal; },
        static_cast<int>(SA_RESETHAND));
    work();
  } catch (...) {
    if (pending == 0) throw;  // otherwise the error is caused by the stop
  }
  if (const int signal = pending.exchange(0)) std::raise(signal);
}

void check_stopped() {
  if (const int signal = pending) fail("stopped by signal {}", signal);
}

}  // namespace trireme
