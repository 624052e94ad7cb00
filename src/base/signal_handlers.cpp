// Installs and restores signal handlers with sigaction.
#include "base/signal_handlers.h"

#include "base/signal_stack.h"

namespace trireme {

SignalHandlers::SignalHandlers(std::initializer_list<int> signals, void (*handler)(int),
                               int more_flags) {
  use_signal_stack();
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_ONSTACK | more_flags;
  before_.reserve(signals.size());
  for (const int signal : signals) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    sigaction(signal, &action, nullptr);
    before_.emplace_back(signal, before);
  }
}

SignalHandlers::~SignalHandlers() {
  for (const auto& [signal, before] : before_) sigaction(signal, &before, nullptr);
}

}  // namespace trireme
