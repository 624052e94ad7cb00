// Tests that signals which arrive while a run computes are recorded and change nothing else.
#include "train/watch/interrupt.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "backend/cpu/gemm.h"

namespace trireme {
namespace {

// Computes long dot products, for which oneDNN's sgemm uses a stack inside the heap.
std::vector<float> long_product() {
  const LinearShape shape{128, 64, 8192};
  const cpu::Linear<float> linear(Product::input_grad, shape);
  std::vector<char> workspace(static_cast<std::size_t>(linear.workspace_bytes()));
  std::vector<float> a(static_cast<std::size_t>(shape.rows * shape.out));
  std::vector<float> b(static_cast<std::size_t>(shape.in * shape.out));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 17);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 13);
  std::vector<float> result(static_cast<std::size_t>(shape.rows * shape.in));
  linear.run(result.data(), a.data(), b.data(), nullptr, false, workspace.data());
  return result;
}

TEST(InterruptGuard, SignalsDoNotDisturbAProduct) {
  const std::vector<float> undisturbed = long_product();
  const InterruptGuard guard;
  std::atomic<bool> done{false};
  std::thread sender([&, computing = pthread_self()] {
    while (!done) {
      pthread_kill(computing, SIGUSR1);
      usleep(100);
    }
  });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(long_product(), undisturbed);
  done = true;
  sender.join();
  EXPECT_EQ(InterruptGuard::pending(), SIGUSR1);
}

// What a signal makes the process say at once.
std::string answer(InterruptGuard::Announced announced, int signal) {
  const InterruptGuard guard;
  InterruptGuard::announce(announced);
  testing::internal::CaptureStderr();
  raise(signal);
  return testing::internal::GetCapturedStderr();
}

TEST(InterruptGuard, UnderALauncherOnlyCtrlCIsAnswered) {
  using enum InterruptGuard::Announced;
  EXPECT_EQ(answer(all, SIGTERM), signalled_words);
  EXPECT_EQ(answer(all, SIGINT), stopping_words);
  EXPECT_EQ(answer(ctrl_c, SIGINT), stopping_words);
  for (const int signal : {SIGTERM, SIGHUP, SIGUSR1}) EXPECT_EQ(answer(ctrl_c, signal), "");
}

}  // namespace
}  // namespace trireme
