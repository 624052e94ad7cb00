// Progress engine: a waiting thread drives operations, and a background thread does if none waits,
// so that communication overlaps computation. Ends the job if a wait takes too long.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/held_memory.h"
#include "comm/operation.h"
#include "comm/transport.h"
#include "comm/wire.h"

namespace trireme {

struct ProgressOptions {
  double timeout_s = 600;
  // Time for other ranks to answer after a timeout or an error report.
  double patience_s = 2;
  // Consecutive timeouts allowed without progress of a rank that is busy with files.
  int busy_waits = 10;
};

class ProgressEngine {
 public:
  using Clock = std::chrono::steady_clock;

  ProgressEngine(Wire& wire, const ProgressOptions& options);
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  // Registers a group by its id, so that this rank can report what it has started in it.
  void add_group(GroupState& group);
  // Removes a group once its abandoned operations, which still need it, are complete.
  void remove_group(std::unique_ptr<GroupState> group);

  // Creates an operation with make(), which counts it in its group, and starts it. It must live
  // until it is done or abandoned.
  template <class Make>
  std::unique_ptr<Operation> start(Make&& make) {
    ++callers_;
    const std::lock_guard lock(mutex_);
    --callers_;
    std::unique_ptr<Operation> operation = make();
    start_locked(*operation);
    return operation;
  }
  void wait(Operation& operation);
  // Takes over an operation whose holder is destroyed: it continues, and the device
  // memory it uses is kept until it completes, or forever if it never does, since the
  // network may still write to it.
  void abandon(std::unique_ptr<Operation> operation, std::vector<MemoryRange> touched);

  void set_listener(OperationListener* listener) {
    const std::lock_guard lock(mutex_);
    listener_ = listener;
  }

  void set_activity(ActivitySource source) {
    const std::lock_guard lock(mutex_);
    activity_ = std::move(source);
  }

  void set_last_output(LastOutput words) {
    const std::lock_guard lock(mutex_);
    last_output_ = std::move(words);
  }

  void set_before_end(std::function<void()> free) {
    const std::lock_guard lock(mutex_);
    before_end_ = std::move(free);
  }

  // For operations advanced outside the engine: `count` records in the group's state that they were
  // reached; until end_outside() they count as what this rank waits for.
  void begin_outside(const Operation& operation, const std::function<void()>& count);
  void end_outside(const Operation& operation);
  // Treats a wait outside the engine like one that has taken `seconds`. Returns
  // if the wait may continue.
  void expire_outside(const Operation& operation, double seconds) { expire(operation, seconds); }
  double timeout_s() const { return options_.timeout_s; }
  const std::vector<std::string>& hosts() const { return hosts_; }

  // Wire calls outside operations.
  template <class Body>
  auto with_wire(Body&& body) {
    const std::lock_guard lock(mutex_);
    return body(wire_);
  }

  // See Transport::abort.
  [[noreturn]] void abort(int exit_code, const std::string& message);

 private:
  struct Wait {
    const Operation* operation;
    Clock::time_point since;
  };
  struct Answer {
    bool given = false;
    ControlMessage message{};
  };
  // Time for which a busy rank has made no progress.
  struct Stall {
    std::uint64_t moved = 0;
    int waits = 0;
  };
  enum class Verdict { none, granted, denied };

  void start_locked(Operation& operation);
  void retire(Operation& operation);
  bool poll();
  bool poll_locked();
  void forget_finished();
  bool is_needed(const GroupState& group) const;
  void pause(int round) const;
  void run();
  void run_until_stopped();
  void wake();

  // Failure and watchdog, in watchdog.cpp.
  void expire(const Operation& operation, double seconds);
  bool is_excused(const Operation& operation);
  std::vector<int> missing_ranks(const Operation& operation) const;
  [[noreturn]] void report_and_exit(int exit_code, const LastMessage& message);
  void print_last_output(LastMessage message);
  void free_before_end();
  [[noreturn]] void stay_silent(int exit_code);
  [[noreturn]] void end_job(int exit_code);
  bool elect_reporter();
  void announce_reporter();
  void release_reporter();
  void poll_until(double seconds, const std::function<bool()>& enough);
  void handle_control();
  void handle(const ControlMessage& message, int from);
  ControlMessage answer_to(const ControlMessage& query, int from) const;
  void ask_all(const Operation& operation);
  LastMessage report(const Operation& operation, double seconds) const;
  std::string name_of(int world_rank) const;
  std::string state_of(int world_rank) const;

  Wire& wire_;
  const ProgressOptions options_;
  const std::vector<std::string> hosts_;  // by world rank
  const bool
      oversubscribed_;  // more processes on this node than cores: spinning would slow down others

  std::mutex mutex_;  // guards the wire and the members below
  std::vector<Operation*> active_;
  struct Abandoned {
    std::unique_ptr<Operation> operation;
    std::uint64_t held;
  };
  std::vector<Abandoned> abandoned_;
  std::vector<std::unique_ptr<GroupState>> removed_groups_;  // kept for abandoned operations
  std::map<std::uint64_t, GroupState*> groups_;
  OperationListener* listener_ = nullptr;
  ActivitySource activity_;
  LastOutput last_output_;
  std::function<void()> before_end_;
  std::vector<Wait> waits_;
  Clock::time_point last_look_{}, settled_until_{};  // of control messages; see handle_control()
  int reporter_ = -1;  // the rank that this rank has elected as the job's reporter
  int arbiter_ = -1;   // the rank that has granted this rank the report
  Verdict verdict_ = Verdict::none;
  std::vector<Answer> answers_;                 // by world rank
  std::vector<Stall> stalls_;                   // by world rank
  const Operation* waited_for_busy_ = nullptr;  // its limit was restarted for a busy rank

  std::atomic<bool> spoken_{false};
  std::atomic<int> callers_{0};      // threads that want the lock to start an operation
  std::atomic<int> waiters_{0};      // threads that drive the progress themselves
  std::atomic<bool> asleep_{false};  // the thread sleeps long enough to be worth waking up
  std::mutex sleep_mutex_;
  std::condition_variable sleep_;
  bool woken_ = false;
  bool stop_ = false;
  std::thread thread_;  // last member: it uses the others
};

}  // namespace trireme
