// A signal handler that sets a flag and prints a line.
#include "train/watch/interrupt.h"

#include <atomic>
#include <csignal>
#include <string_view>

#include <unistd.h>

namespace trireme {
namespace {

std::atomic<int> pending_signal = 0;  // async-signal-safe, because it is lock-free
static_assert(std::atomic<int>::is_always_lock_free);

std::atomic<bool> speaks = false;

// Uses only async-signal-safe functions.
void say(std::string_view words) {
  if (speaks) (void)!::write(STDERR_FILENO, words.data(), words.size());
}

void note(int signal) {
  if (signal == SIGINT && pending_signal == SIGINT) {
    say("\ntrireme: stopped immediately; existing checkpoints are untouched\n");
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  if (pending_signal != 0) return;
  pending_signal = signal;
  say(signal == SIGINT ? stopping_words : signalled_words);
}

}  // namespace

InterruptGuard::InterruptGuard() : handlers_({SIGINT, SIGTERM, SIGHUP, SIGUSR1}, note) {}

void InterruptGuard::speak() {
  speaks = true;
}

InterruptGuard::~InterruptGuard() {
  pending_signal = 0;  // signals apply to one guard only
}

int InterruptGuard::pending() {
  return pending_signal;
}

}  // namespace trireme
