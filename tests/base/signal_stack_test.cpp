// Tests that signal handlers which interrupt a computing thread leave its stack untouched.
#include "base/signal_stack.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/stop.h"
#include "base/thread_pool.h"

namespace trireme {
namespace {

volatile std::uintptr_t handler_place = 0;

void note_place(int) {
  int local = 0;
  handler_place = reinterpret_cast<std::uintptr_t>(&local);
}

bool on_own_stack(std::uintptr_t place) {
  pthread_attr_t attributes;
  void* begin = nullptr;
  std::size_t size = 0;
  EXPECT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  pthread_attr_getstack(&attributes, &begin, &size);
  pthread_attr_destroy(&attributes);
  return place - reinterpret_cast<std::uintptr_t>(begin) < size;
}

bool has_signal_stack() {
  stack_t stack{};
  return sigaltstack(nullptr, &stack) == 0 && !(stack.ss_flags & SS_DISABLE);
}

TEST(SignalStack, HandlersRunOnIt) {
  struct sigaction action {
  }, before{};
  action.sa_handler = note_place;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR2, &action, &before);
  std::thread([] {
    use_signal_stack();
    use_signal_stack();  // a second call does nothing
    EXPECT_TRUE(has_signal_stack());
    raise(SIGUSR2);
    EXPECT_NE(handler_place, 0u);
    EXPECT_FALSE(on_own_stack(handler_place));
  }).join();
  sigaction(SIGUSR2, &before, nullptr);
}

TEST(SignalStack, EveryThreadOfAPoolHasOne) {
  use_signal_stack();  // the caller is one of the threads
  ThreadPool pool(4);
  std::atomic<int> with{0};
  pool.run(64, [&](std::int64_t, int) { with += has_signal_stack(); });
  EXPECT_EQ(with, 64);
}

TEST(SignalStack, HandlersThatAskForAnEndUseIt) {
  stoppable([] {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      EXPECT_TRUE(action.sa_flags & SA_ONSTACK);
    }
    EXPECT_TRUE(has_signal_stack());
  });
}

}  // namespace
}  // namespace trireme
