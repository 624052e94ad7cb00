// A pool of threads for data-parallel loops. Work is cut by the caller into tasks whose number
// depends on the problem only, never on the number of threads: results then do not depend on it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/divide.h"

namespace trireme {

class ThreadPool {
 public:
  // A pool of `threads` workers, the calling thread included; 0 means one per available core.
  // Throws an Error if the system does not start that many.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();

  int size() const;

  // Runs body(task, worker) for every task in [0, tasks) and returns when all are done. Tasks may
  // run in any order; worker is in [0, size()). Once a task has thrown, no further one is started;
  // the first exception is rethrown here. A task must not call run() of its own pool.
  void run(std::int64_t tasks, const std::function<void(std::int64_t, int)>& body);

  // The pool that kernels use. Its size is TRIREME_THREADS if set, else one per available core.
  static ThreadPool& global();
  // Replaces the global pool; not while it is running.
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

// Cuts [0, count) into pieces of at most `grain` and runs body(begin, end) for each.
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
