// Tests that the thread pool runs every task exactly once and propagates errors.
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "few_threads.h"

namespace trireme {
namespace {

TEST(ThreadPool, RunsEveryTaskOnceManyTimes) {
  ThreadPool pool(4);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::atomic<int>> hits(round % 17);
    pool.run(static_cast<std::int64_t>(hits.size()), [&](std::int64_t task, int worker) {
      EXPECT_LT(worker, 4);
      ++hits[task];
    });
    for (const auto& hit : hits) EXPECT_EQ(hit, 1);
  }
}

TEST(ThreadPool, RethrowsATasksError) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.run(10,
                        [](std::int64_t task, int) {
                          if (task == 5) throw std::runtime_error("task 5");
                        }),
               std::runtime_error);
}

TEST(ThreadPool, StartsNoTaskAfterAnError) {
  ThreadPool pool(4);
  constexpr std::int64_t tasks = 1'000'000'000;
  std::atomic<std::int64_t> begun = 0;
  EXPECT_THROW(pool.run(tasks,
                        [&](std::int64_t task, int) {
                          ++begun;
                          if (task == 5) throw std::runtime_error("task 5");
                        }),
               std::runtime_error);
  EXPECT_LT(begun, tasks / 2);
  begun = 0;
  pool.run(100, [&](std::int64_t, int) { ++begun; });
  EXPECT_EQ(begun, 100);
}

TEST(ThreadPool, ATaskThatRunsItsOwnPoolIsAnError) {
  ThreadPool pool(2), other(2);
  EXPECT_THROW(pool.run(4, [&](std::int64_t, int) { pool.run(1, [](std::int64_t, int) {}); }),
               Error);
  std::atomic<int> done = 0;
  pool.run(4, [&](std::int64_t, int) { other.run(4, [&](std::int64_t, int) { ++done; }); });
  EXPECT_EQ(done, 16);
  pool.run(4, [&](std::int64_t, int) { ++done; });
  EXPECT_EQ(done, 20);
}

TEST(ThreadPool, SaysWhenThreadsCannotStart) {
  EXPECT_EXIT(exit_with_few_threads([] { ThreadPool(64); }), testing::ExitedWithCode(1),
              "cannot start another thread: .*; set TRIREME_THREADS to fewer than 64");
  EXPECT_EXIT(exit_with_few_threads([] { ThreadPool(2); }), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace trireme
