// A handler that does nothing but remember.
#include "train/interrupt.h"

#include <atomic>
#include <csignal>

namespace trireme {
namespace {

std::atomic<int> pending_signal = 0;  // handlers may use it: it needs no lock
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) {
  if (signal == SIGINT && pending_signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  if (pending_signal == 0) pending_signal = signal;
}

}  // namespace

InterruptGuard::InterruptGuard() : handlers_({SIGINT, SIGTERM, SIGHUP, SIGUSR1}, note) {}

InterruptGuard::~InterruptGuard() {
  pending_signal = 0;  // signals are for one guard only
}

int InterruptGuard::pending() {
  return pending_signal;
}

}  // namespace trireme
