// Workers spin briefly, then sleep; an atomic counter distributes the tasks.
#include "base/thread_pool.h"

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/signal_stack.h"
#include "base/thread.h"

namespace trireme {
namespace {

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

int default_size() {
  const char* text = std::getenv("TRIREME_THREADS");
  if (!text || !*text) return available_cores();
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end || value < 1 || value > 4096) {
    fail_input("TRIREME_THREADS is '{}'; it must be a number from 1 to 4096", text);
  }
  return static_cast<int>(value);
}

constexpr int spins_before_sleep = 2000;

}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<std::uint64_t> generation{0};
  std::atomic<std::int64_t> next{0};
  std::atomic<int> busy{0};
  std::int64_t tasks = 0;
  const std::function<void(std::int64_t, int)>* body = nullptr;
  std::atomic<bool> stop{false};
  std::exception_ptr error;
  std::mutex run_mutex;
  // The pool whose task this thread is running.
  static thread_local const State* running;

  void take_tasks(int worker) {
    const State* const outer = std::exchange(running, this);
    try {
      for (;;) {
        const std::int64_t task = next.fetch_add(1, std::memory_order_relaxed);
        if (task >= tasks) break;
        (*body)(task, worker);
      }
    } catch (...) {
      next.store(tasks);  // stop handing out tasks
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
    running = outer;
  }

  void work(int worker) {
    use_signal_stack();
    std::uint64_t seen = 0;
    for (;;) {
      for (int i = 0; i < spins_before_sleep && generation.load(std::memory_order_acquire) == seen;
           ++i) {
        __builtin_ia32_pause();
      }
      if (generation.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return generation.load() != seen; });
      }
      seen = generation.load(std::memory_order_acquire);
      if (stop) return;
      take_tasks(worker);
      busy.fetch_sub(1, std::memory_order_release);
    }
  }
};

thread_local const ThreadPool::State* ThreadPool::State::running = nullptr;

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  if (threads <= 0) threads = default_size();
  try {
    for (int worker = 1; worker < threads; ++worker) {
      state_->workers.push_back(
          start_thread(fmt::format("set TRIREME_THREADS to fewer than {}", threads),
                       [state = state_.get(), worker] { state->work(worker); }));
    }
  } catch (...) {
    stop_workers();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop_workers();
}

void ThreadPool::stop_workers() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->generation.fetch_add(1);
  }
  state_->wake.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::size() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::run(std::int64_t tasks, const std::function<void(std::int64_t, int)>& body) {
  if (tasks <= 0) return;
  State& state = *state_;
  TRIREME_CHECK(State::running != &state);  // it would deadlock
  const std::lock_guard run_lock(state.run_mutex);
  {
    const std::lock_guard lock(state.mutex);
    state.tasks = tasks;
    state.body = &body;
    state.error = nullptr;
    state.next.store(0);
    state.busy.store(static_cast<int>(state.workers.size()));
    state.generation.fetch_add(1, std::memory_order_release);
  }
  state.wake.notify_all();
  state.take_tasks(0);
  for (int spin = 0; state.busy.load(std::memory_order_acquire) > 0; ++spin) {
    if (spin < spins_before_sleep) {
      __builtin_ia32_pause();
    } else {
      sched_yield();  // more threads than cores
    }
  }
  if (state.error) std::rethrow_exception(state.error);
}

namespace {
std::unique_ptr<ThreadPool>& global_pool() {
  static std::unique_ptr<ThreadPool> pool = std::make_unique<ThreadPool>();
  return pool;
}
}  // namespace

ThreadPool& ThreadPool::global() {
  return *global_pool();
}

void ThreadPool::set_global_size(int threads) {
  global_pool().reset();
  global_pool() = std::make_unique<ThreadPool>(threads);
}

}  // namespace trireme
