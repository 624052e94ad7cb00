// Installs sigaltstack for the lifetime of a thread.
#include "base/signal_stack.h"

#include <signal.h>
#include <sys/auxv.h>

#include <memory>

namespace trireme {
namespace {

constexpr unsigned long handler_bytes = 64 << 10;  // for the handler itself

class SignalStack {
 public:
  SignalStack() {
    stack_t before{};
    // Keeps an existing alternate stack, such as a sanitizer's.
    if (sigaltstack(nullptr, &before) != 0 || !(before.ss_flags & SS_DISABLE)) return;
    const unsigned long size = handler_bytes + getauxval(AT_MINSIGSTKSZ);
    memory_ = std::make_unique<char[]>(size);
    const stack_t own{.ss_sp = memory_.get(), .ss_flags = 0, .ss_size = size};
    sigaltstack(&own, nullptr);
  }
  ~SignalStack() {
    if (!memory_) return;
    const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    sigaltstack(&none, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<char[]> memory_;
};

}  // namespace

void use_signal_stack() {
  static thread_local const SignalStack stack;
}

}  // namespace trireme
