// The pool runs every task once and hands errors on.
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

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

}  // namespace
}  // namespace trireme
