// A handler that does nothing but remember.
#include "base/stop.h"

#include <array>
#include <atomic>
#include <csignal>

#include "base/error.h"
#include "base/signal_stack.h"

namespace trireme {
namespace {

constexpr std::array<int, 3> signals = {SIGINT, SIGTERM, SIGHUP};
// Written by the handler, read by every thread that writes.
std::atomic<int> pending = 0;
static_assert(std::atomic<int>::is_always_lock_free, "else a handler must not touch it");

class Handlers {
 public:
  Handlers() {
    pending = 0;
    use_signal_stack();
    struct sigaction action {};
    action.sa_handler = [](int signal) { pending = signal; };
    action.sa_flags = SA_RESTART | SA_ONSTACK | static_cast<int>(SA_RESETHAND);
    for (std::size_t i = 0; i < signals.size(); ++i) {
      sigaction(signals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, nullptr);
    }
  }
  ~Handlers() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
  }

 private:
  std::array<struct sigaction, signals.size()> before_;
};

}  // namespace

void stoppable(const std::function<void()>& work) {
  try {
    const Handlers handlers;
    work();
  } catch (...) {
    if (pending == 0) throw;  // else it failed because it was stopped
  }
  if (const int signal = pending.exchange(0)) std::raise(signal);
}

void check_stopped() {
  if (const int signal = pending) fail("stopped by signal {}", signal);
}

}  // namespace trireme
