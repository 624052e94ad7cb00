// Bridge from kernels to the thread pool; compiled for the baseline processor.
#include "backend/cpu/tasks.h"

#include "base/thread_pool.h"

namespace trireme::cpu {

void run_tasks(std::int64_t tasks, TaskBody body, const void* context) {
  ThreadPool::global().run(tasks, [=](std::int64_t task, int) { body(context, task); });
}

int pool_threads() {
  return ThreadPool::global().size();
}

}  // namespace trireme::cpu
