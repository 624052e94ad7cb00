// Progress of the engine: one lock around the wire, held by whichever thread advances operations.
#include "comm/engine.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>

#include "base/error.h"
#include "comm/running_time.h"
#include "comm/wait_time.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds shortest_nap = 20us;
constexpr std::chrono::nanoseconds longest_nap = 100us;   // while something is under way
constexpr std::chrono::nanoseconds longest_sleep = 20ms;  // control messages still get answers
constexpr std::chrono::nanoseconds worth_waking = 1ms;

thread_local double waited_seconds = 0;

}  // namespace

ProgressEngine::ProgressEngine(Wire& wire, const ProgressOptions& options)
    : wire_(wire),
      options_(options),
      hosts_(wire.hosts()),
      oversubscribed_(wire.place().local_size > wire.place().local_processors),
      answers_(wire.place().size),
      stalls_(wire.place().size),
      thread_([this] { run(); }) {}

ProgressEngine::~ProgressEngine() {
  {
    const std::lock_guard lock(sleep_mutex_);
    stop_ = true;
  }
  sleep_.notify_all();
  thread_.join();
  // The network may still write to buffers of unfinished operations: keep
  // them until the process ends.
  static std::mutex guard;
  static auto* const kept = new std::vector<std::unique_ptr<Operation>>;
  const std::lock_guard lock(guard);
  for (Abandoned& one : abandoned_) {
    if (!one.operation->done()) kept->push_back(std::move(one.operation));
  }
}

void ProgressEngine::add_group(GroupState& group) {
  const std::lock_guard lock(mutex_);
  groups_[group.id] = &group;
}

bool ProgressEngine::is_needed(const GroupState& group) const {
  return std::any_of(abandoned_.begin(), abandoned_.end(), [&](const Abandoned& one) {
    return &one.operation->group() == &group && !one.operation->done();
  });
}

void ProgressEngine::remove_group(std::unique_ptr<GroupState> group) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(group->id);
  if (found != groups_.end() && found->second == group.get()) groups_.erase(found);
  if (is_needed(*group)) removed_groups_.push_back(std::move(group));
}

void ProgressEngine::start_locked(Operation& operation) {
  if (operation.expectation().kind == Expectation::Kind::collective) {
    auto& queue = operation.group().queue;
    queue.push_back(&operation);
    if (queue.size() > 1) return;
  }
  // The first messages are sent at once, from the caller's thread.
  if (operation.advance(wire_).complete) {
    retire(operation);
  } else {
    active_.push_back(&operation);
  }
  if (asleep_.load(std::memory_order_relaxed)) wake();
}

void ProgressEngine::retire(Operation& operation) {
  auto& queue = operation.group().queue;
  if (!queue.empty() && queue.front() == &operation) {
    queue.pop_front();
    if (!queue.empty()) active_.push_back(queue.front());
  }
  if (listener_) {
    listener_->completed(operation.group().name, operation.label(), operation.sent_bytes(),
                         operation.begun(), Clock::now());
  }
  operation.finish();
}

bool ProgressEngine::poll_locked() {
  bool moved = false;
  for (std::size_t i = 0; i < active_.size();) {
    Operation& operation = *active_[i];
    const Advance progress = operation.advance(wire_);
    moved |= progress.moved;
    if (progress.complete) {
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
      retire(operation);
    } else {
      ++i;
    }
  }
  if (moved && !abandoned_.empty()) forget_finished();
  handle_control();
  return moved;
}

bool ProgressEngine::poll() {
  const std::lock_guard lock(mutex_);
  return poll_locked();
}

double seconds_waited() {
  return waited_seconds;
}

void ProgressEngine::wait(Operation& operation) {
  if (operation.done()) return;
  const Clock::time_point since = Clock::now();
  struct Count {
    const Clock::time_point since;
    ~Count() { waited_seconds += std::chrono::duration<double>(Clock::now() - since).count(); }
  } count{since};
  ++waiters_;
  {
    const std::lock_guard lock(mutex_);
    waits_.push_back({&operation, since});
  }
  struct Leave {
    ProgressEngine& engine;
    Operation& operation;
    ~Leave() {
      --engine.waiters_;
      const std::lock_guard lock(engine.mutex_);
      std::erase_if(engine.waits_, [&](const Wait& w) { return w.operation == &operation; });
    }
  } leave{*this, operation};
  RunningTime time;
  double allowed = options_.timeout_s;
  // Operations left unfinished by an error must not write to memory that their
  // holder is about to free.
  struct Drop {
    ProgressEngine& engine;
    Operation& operation;
    ~Drop() {
      if (operation.done()) return;
      const std::lock_guard lock(engine.mutex_);
      std::erase(engine.active_, &operation);
    }
  } drop{*this, operation};
  for (int round = 0; !operation.done();) {
    const double waited = time.seconds();
    if (poll()) {
      round = 0;
      continue;
    }
    if (waited > allowed) {
      expire(operation, waited);
      allowed = time.seconds() + options_.timeout_s;
    }
    pause(round++);
  }
}

void ProgressEngine::begin_outside(const Operation& operation, const std::function<void()>& count) {
  const std::lock_guard lock(mutex_);
  count();
  waits_.push_back({&operation, Clock::now()});
}

void ProgressEngine::end_outside(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waits_, [&](const Wait& w) { return w.operation == &operation; });
}

// A waiting thread first spins, as answers often take microseconds, then yields the core.
void ProgressEngine::pause(int round) const {
  const int spins = oversubscribed_ ? 0 : 100;
  if (round < spins) {
    for (int i = 0; i < 8; ++i) __builtin_ia32_pause();
  } else if (round < spins + 8) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(round < spins + 40 ? shortest_nap : longest_nap / 2);
  }
}

void ProgressEngine::abandon(std::unique_ptr<Operation> operation,
                             std::vector<MemoryRange> touched) {
  const std::lock_guard lock(mutex_);
  if (operation->done()) return;
  abandoned_.push_back({std::move(operation), hold_memory(std::move(touched))});
}

void ProgressEngine::forget_finished() {
  std::erase_if(abandoned_, [](const Abandoned& one) {
    if (!one.operation->done()) return false;
    release_memory(one.held);
    return true;
  });
  std::erase_if(removed_groups_, [&](const auto& group) { return !is_needed(*group); });
}

void ProgressEngine::wake() {
  {
    const std::lock_guard lock(sleep_mutex_);
    woken_ = true;
  }
  sleep_.notify_one();
}

void ProgressEngine::run() {
  prctl(PR_SET_TIMERSLACK, 1000);  // makes short sleeps precise; the default slack is 50 us
  try {
    try {
      run_until_stopped();
    } catch (const JobEnded&) {
      throw;
    } catch (const std::exception& error) {
      abort(static_cast<int>(ExitCode::failed), error.what());
    }
  } catch (const JobEnded&) {
    // Only the wire between threads returns from abort(); its other calls then fail too.
  }
}

void ProgressEngine::run_until_stopped() {
  std::chrono::nanoseconds nap = shortest_nap;
  for (;;) {
    bool moved = false;
    bool busy = true;
    if (waiters_.load() == 0) {
      const std::lock_guard lock(mutex_);
      moved = poll_locked();
      busy = !active_.empty();
    }
    if (moved) {
      nap = shortest_nap;
      // The lock is unfair, so let waiting callers in. Otherwise do not yield: on a busy core the
      // time given away may be milliseconds.
      if (callers_.load() > 0) std::this_thread::yield();
      continue;
    }
    nap = std::min(nap * 2, busy ? longest_nap : longest_sleep);
    asleep_ = nap >= worth_waking;
    std::unique_lock lock(sleep_mutex_);
    sleep_.wait_for(lock, nap, [&] { return stop_ || woken_; });
    asleep_ = false;
    if (stop_) return;
    if (woken_) nap = shortest_nap;
    woken_ = false;
  }
}

}  // namespace trireme
