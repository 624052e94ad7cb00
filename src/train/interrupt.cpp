// A handler that does nothing but remember.
#include "train/interrupt.h"

#include <array>
#include <atomic>
#include <csignal>

#include "base/signal_stack.h"

namespace trireme {
namespace {

std::atomic<int> pending_signal = 0;  // handlers may use it: it needs no lock
static_assert(std::atomic<int>::is_always_lock_free);
constexpr std::array<int, 4> signals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
std::array<struct sigaction, signals.size()> previous;

void note(int signal) {
  if (signal == SIGINT && pending_signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  if (pending_signal == 0) pending_signal = signal;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  pending_signal = 0;
  use_signal_stack();
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], nullptr, &previous[i]);
    // What nohup or a shell's background job ignores stays ignored.
    if (previous[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &previous[i], nullptr);
}

int InterruptGuard::pending() {
  return pending_signal;
}

}  // namespace trireme
