// Polls the first operation of each queue between sleeps of the host.
#include "comm/device_watch.h"

#include <sched.h>

#include <exception>
#include <thread>

#include "comm/transport.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;

constexpr auto between_looks = 20ms;
constexpr auto nap = 50us;
constexpr int spins = 200;  // most waits are short

std::size_t index_of(QueueRole role) {
  return static_cast<std::size_t>(role);
}

}  // namespace

DeviceWatch::DeviceWatch(Device& device, Transport& transport)
    : device_(device), transport_(transport) {
  device_.set_wait_policy(this);
  transport_.set_before_end([this] { abort_all(); });
}

DeviceWatch::~DeviceWatch() {
  transport_.set_before_end(nullptr);
  device_.set_wait_policy(nullptr);
}

void DeviceWatch::add(WatchedGroup& group) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(&group);
}

void DeviceWatch::remove(WatchedGroup& group) {
  const std::lock_guard lock(mutex_);
  std::erase(groups_, &group);
}

void DeviceWatch::add(QueueRole queue, WatchedOperation operation) {
  const std::lock_guard lock(mutex_);
  operations_[index_of(queue)].push_back(std::move(operation));
  tidy(queue);
}

// Removes completed operations, and records the start of the next one.
void DeviceWatch::tidy(QueueRole role) {
  auto& operations = operations_[index_of(role)];
  Queue& queue = device_.queue(role);
  while (!operations.empty() && queue.has_passed(operations.front().finished)) {
    operations.front().outside->finish();
    operations.pop_front();
  }
  if (operations.empty() || operations.front().since) return;
  if (!queue.has_passed(operations.front().ready)) return;
  operations.front().outside->reach();
  operations.front().since.emplace();
}

void DeviceWatch::look() {
  std::vector<Late> under_way;
  {
    const std::lock_guard lock(mutex_);
    if (Clock::now() < last_look_ + between_looks) return;
    last_look_ = Clock::now();
    for (std::size_t role = 0; role < operations_.size(); ++role) {
      if (operations_[role].empty()) continue;  // also avoids asking for unused queues
      tidy(static_cast<QueueRole>(role));
      if (operations_[role].empty()) continue;
      WatchedOperation& first = operations_[role].front();
      if (first.since) under_way.push_back({first.outside, first.since->seconds()});
    }
    for (WatchedGroup* group : groups_) group->check();
  }
  for (const Late& late : under_way) late.operation->check(late.seconds);
}

void DeviceWatch::waiting(int round) {
  if (std::uncaught_exceptions() > 0) abort_all();
  if (round < spins) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(nap);
  }
  look();
}

void DeviceWatch::abort_all() noexcept {
  const std::lock_guard lock(mutex_);
  for (WatchedGroup* group : groups_) group->abort();
}

}  // namespace trireme
