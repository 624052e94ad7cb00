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

using Announced = InterruptGuard::Announced;
std::atomic<Announced> announced = Announced::nothing;

// Uses only async-signal-safe functions.
void say(int signal, std::string_view words) {
  const Announced which = announced;
  if (which == Announced::all || (which == Announced::ctrl_c && signal == SIGINT))
    (void)!::write(STDERR_FILENO, words.data(), words.size());
}

void note(int signal) {
  if (signal == SIGINT && pending_signal == SIGINT) {
    say(signal, "\ntrireme: stopped immediately; existing checkpoints are untouched\n");
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  if (pending_signal != 0) return;
  pending_signal = signal;
  say(signal, signal == SIGINT ? stopping_words : signalled_words);
}

}  // namespace

InterruptGuard::InterruptGuard() : handlers_({SIGINT, SIGTERM, SIGHUP, SIGUSR1}, note) {}

void InterruptGuard::announce(Announced which) {
  announced = which;
}

InterruptGuard::~InterruptGuard() {
  pending_signal = 0;  // signals apply to one guard only
}

int InterruptGuard::pending() {
  return pending_signal;
}

}  // namespace trireme
