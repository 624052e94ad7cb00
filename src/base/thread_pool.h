// Thread pool for data-parallel loops. The caller splits work into tasks whose number depends only
// on the problem, never on the number of threads, so that results do not either.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/divide.h"

namespace trireme {

class ThreadPool {
 public:
  // Creates a pool of `threads` workers, including the calling thread; 0 means one per available
  // core. Throws an Error if the system cannot start that many.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();

  int size() const;

  // Runs body(task, worker) for every task in [0, tasks) and returns when all are done. Tasks run
  // in any order; worker is in [0, size()). After a task has thrown, no further task is started,
  // and the first exception is rethrown here. A task must not call run() of its own pool.
  void run(std::int64_t tasks, const std::function<void(std::int64_t, int)>& body);

  // The pool used by kernels. Its size is TRIREME_THREADS if set, else one per available core.
  static ThreadPool& global();
  // Replaces the global pool; must not be called while it is running.
  static void set_global_size(int threads);

 private:
  void stop_workers();

  struct State;
  std::unique_ptr<State> state_;
};

// Runs body(task) for every task in [0, tasks) on the global pool.
template <class Body>
void parallel_for(std::int64_t tasks, Body&& body) {
  if (tasks == 1) {
    body(std::int64_t{0});
    return;
  }
  ThreadPool::global().run(tasks, [&](std::int64_t task, int) { body(task); });
}

// Splits [0, count) into ranges of at most `grain` and runs body(begin, end) for each.
template <class Body>
void parallel_ranges(std::int64_t count, std::int64_t grain, Body&& body) {
  const std::int64_t tasks = ceil_div(count, grain);
  if (tasks <= 0) return;
  parallel_for(tasks, [&](std::int64_t task) {
    const std::int64_t begin = task * grain;
    body(begin, begin + grain < count ? begin + grain : count);
  });
}

}  // namespace trireme
