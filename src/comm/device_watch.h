// Monitors the operations on a device's queues while the host waits for the device.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/device.h"
#include "comm/outside_group.h"
#include "comm/running_time.h"

namespace trireme {

class Transport;

// An operation on a queue, between two events.
struct WatchedOperation {
  Event ready;     // its inputs are ready
  Event finished;  // it has completed
  std::shared_ptr<OutsideOperation> outside;
  std::optional<RunningTime> since{};  // when it became ready
};

// A communicator of the device's library: checks for asynchronous errors, and aborts.
class WatchedGroup {
 public:
  virtual ~WatchedGroup() = default;
  // Throws an error that names the group if an asynchronous error occurred.
  virtual void check() = 0;
  // Ends pending operations incomplete and starts no more. Idempotent; thread-safe.
  virtual void abort() noexcept = 0;
};

// The wait policy of the device, called in every wait of the host. An operation that is ready but
// does not complete within the transport's time limit ends the job with a message naming it, its
// group and the missing ranks; computation has no limit. While an error unwinds the stack, all
// groups are aborted, as their other ranks may never arrive.
class DeviceWatch final : public WaitPolicy {
 public:
  // Both must outlive it.
  DeviceWatch(Device& device, Transport& transport);
  ~DeviceWatch() override;
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  void add(WatchedGroup& group);
  void remove(WatchedGroup& group);
  // Adds an operation of a queue; calls for one queue are in its order.
  void add(QueueRole queue, WatchedOperation operation);

  void waiting(int round) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Late {
    std::shared_ptr<OutsideOperation> operation;
    double seconds;
  };

  void look();
  void tidy(QueueRole role);
  void abort_all() noexcept;

  Device& device_;
  Transport& transport_;
  std::mutex mutex_;  // guards the members below
  std::vector<WatchedGroup*> groups_;
  std::array<std::deque<WatchedOperation>, static_cast<std::size_t>(QueueRole::count)> operations_;
  Clock::time_point last_look_{};
};

}  // namespace trireme
