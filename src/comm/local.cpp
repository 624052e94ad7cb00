// A hub that matches sends and receives, and a wire to it for each thread.
#include "comm/local.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "base/counted.h"
#include "base/error.h"
#include "comm/cores.h"
#include "comm/group.h"

namespace trireme {
namespace {

class LocalHub {
 public:
  struct Flight {
    void* data;
    std::size_t bytes;
    std::atomic<bool> done{false};
  };
  struct Address {
    Wire::Context context;
    int from, to, tag;                                 // world ranks
    auto operator<=>(const Address&) const = default;  // NOLINT: clang-tidy 14 sees a null
  };

  explicit LocalHub(int size) : mailboxes_(size) {}

  void post(const Address& address, bool sends, Flight* flight) {
    const std::lock_guard lock(mutex_);
    check_alive();
    Queues& queues = queues_[address];
    (sends ? queues.sends : queues.receives).push_back(flight);
    if (queues.sends.empty() || queues.receives.empty()) return;
    Flight* const from = queues.sends.front();
    Flight* const to = queues.receives.front();
    queues.sends.pop_front();
    queues.receives.pop_front();
    if (from->bytes != to->bytes) {
      fail("a message of {} arrived where {} were expected", counted(from->bytes, "byte"),
           to->bytes);
    }
    if (to->bytes > 0) std::memcpy(to->data, from->data, to->bytes);
    from->done.store(true, std::memory_order_release);
    to->done.store(true, std::memory_order_release);
  }

  // The n-th call of each rank with the same ranks and key returns the same context.
  Wire::Context open_context(int rank, const std::vector<int>& ranks, int key) {
    const std::lock_guard lock(mutex_);
    const int call = context_calls_[{ranks, key, rank}]++;
    return contexts_.try_emplace({ranks, key, call}, static_cast<int>(contexts_.size()) + 1)
        .first->second;
  }

  void send_control(const ControlMessage& message, int from, int to) {
    const std::lock_guard lock(mutex_);
    mailboxes_[to].emplace_back(message, from);
  }

  bool receive_control(ControlMessage& message, int& from, int rank) {
    const std::lock_guard lock(mutex_);
    check_alive();
    auto& box = mailboxes_[rank];
    if (box.empty()) return false;
    std::tie(message, from) = box.front();
    box.pop_front();
    return true;
  }

  [[noreturn]] void abort(int exit_code) {
    {
      const std::lock_guard lock(mutex_);  // waits until no thread is copying
      ended_ = true;
    }
    throw JobEnded(static_cast<ExitCode>(exit_code));
  }

 private:
  struct Queues {
    std::deque<Flight*> sends, receives;
  };

  void check_alive() const {
    if (ended_) throw JobEnded(ExitCode::failed);
  }

  std::mutex mutex_;
  std::map<Address, Queues> queues_;
  std::map<std::tuple<std::vector<int>, int, int>, int> context_calls_, contexts_;
  std::vector<std::deque<std::pair<ControlMessage, int>>> mailboxes_;
  bool ended_ = false;
};

class LocalWire final : public Wire {
 public:
  LocalWire(LocalHub& hub, int rank, int size) : hub_(hub) {
    place_ = {rank, size, rank, size, "local", static_cast<int>(own_processors().size())};
    members_[world_context].resize(size);
    for (int i = 0; i < size; ++i) members_[world_context][i] = i;
  }

  const Place& place() const override { return place_; }

  Context open_context(const std::vector<int>& world_ranks, int key) override {
    const Context context = hub_.open_context(place_.rank, world_ranks, key);
    members_[context] = world_ranks;
    return context;
  }

  Request send(const void* data, std::size_t bytes, int peer, Context context, int tag) override {
    const int to = members_.at(context).at(peer);
    return post({context, place_.rank, to, tag}, true, const_cast<void*>(data), bytes);
  }

  Request receive(void* data, std::size_t bytes, int peer, Context context, int tag) override {
    const int from = members_.at(context).at(peer);
    return post({context, from, place_.rank, tag}, false, data, bytes);
  }

  bool test(Request& request) override {
    return flights_[request.bits]->done.load(std::memory_order_acquire);
  }

  void send_control(const ControlMessage& message, int peer) override {
    hub_.send_control(message, place_.rank, peer);
  }
  bool receive_control(ControlMessage& message, int& peer) override {
    return hub_.receive_control(message, peer, place_.rank);
  }

  void abort(int exit_code) override { hub_.abort(exit_code); }

 private:
  Request post(const LocalHub::Address& address, bool sends, void* data, std::size_t bytes) {
    flights_.push_back(std::make_unique<LocalHub::Flight>());
    LocalHub::Flight* const flight = flights_.back().get();
    flight->data = data;
    flight->bytes = bytes;
    hub_.post(address, sends, flight);
    return {flights_.size() - 1};
  }

  LocalHub& hub_;
  Place place_;
  std::map<Context, std::vector<int>> members_;
  // Kept until the end: the peer may access a flight after this side has seen it complete.
  std::vector<std::unique_ptr<LocalHub::Flight>> flights_;
};

}  // namespace

void run_local_ranks(int ranks, const ProgressOptions& options,
                     const std::function<void(Transport&)>& body) {
  LocalHub hub(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  transports.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    transports.push_back(
        make_wire_transport(std::make_unique<LocalWire>(hub, rank, ranks), options));
  }
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        std::unique_ptr<Transport> transport = std::move(transports[rank]);
        try {
          body(*transport);
          transport->leave();
        } catch (const JobEnded&) {
          throw;
        } catch (const std::exception& error) {
          {
            const std::lock_guard lock(mutex);
            if (!first) first = std::current_exception();
          }
          transport->abort(static_cast<int>(ExitCode::failed), error.what());
        }
      } catch (...) {
        // Follows an error that is recorded already, or a watchdog that has printed its message.
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace trireme
