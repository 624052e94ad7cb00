// Watches the operations that the queues of a device run while the host waits for the device.
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

// An operation on a queue, between two points in the device's work.
struct WatchedOperation {
  Event ready;     // what it needs has been made
  Event finished;  // it is over
  std::shared_ptr<OutsideOperation> outside;
  std::optional<RunningTime> since{};  // its turn came
};

// A group of the device's library: what goes wrong in the background, and its violent end.
class WatchedGroup {
 public:
  virtual ~WatchedGroup() = default;
  // Fails, naming the group, if something did.
  virtual void check() = 0;
  // Operations under way end, undone; later ones are not begun. Once or more, from any thread.
  virtual void abort() noexcept = 0;
};

// Asked by the device in every wait of the host. An operation whose turn has come and which is not
// over within the transport's time limit ends the job with a message that names it, its group and
// the ranks that are missing; computation has no limit. While an error unwinds the stack, all
// groups are aborted, as their other ranks may never come.
class DeviceWatch final : public WaitPolicy {
 public:
  // Both outlive it.
  DeviceWatch(Device& device, Transport& transport);
  ~DeviceWatch() override;
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  void add(WatchedGroup& group);
  void remove(WatchedGroup& group);
  // The operations of a queue in its order.
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
  std::mutex mutex_;  // guards what follows
  std::vector<WatchedGroup*> groups_;
  std::array<std::deque<WatchedOperation>, static_cast<std::size_t>(QueueRole::count)> operations_;
  Clock::time_point last_look_{};
};

}  // namespace trireme
