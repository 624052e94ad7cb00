// Library calls between two events; sums in rank order by the library's messages
// and a kernel of our own.
#include "comm/device_communicator.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "backend/collectives.h"
#include "base/error.h"

namespace trireme {
namespace {

// Small sums take one step: every rank sends all its data to all others and reduces everything.
constexpr std::int64_t small_bytes = 16 << 10;
constexpr int small_group = 16;

// Messages over the hosts' group, for libraries without a network transport.
class MessagesOf final : public HostMessages {
 public:
  explicit MessagesOf(Communicator& hosts) : hosts_(hosts) {}

  std::unique_ptr<Transfer> start(std::span<const Message> messages) override {
    std::vector<trireme::Transfer> transfers;
    for (const Message& m : messages) {
      transfers.push_back(
          {m.sends ? trireme::Transfer::Direction::send : trireme::Transfer::Direction::receive,
           m.peer, m.data, m.bytes, DType::u8});
    }
    return std::make_unique<Started>(hosts_.exchange(transfers, "messages of the substitute"));
  }

 private:
  struct Started final : Transfer {
    explicit Started(Work w) : work(std::move(w)) {}
    bool done() override { return work.done(); }
    Work work;
  };

  Communicator& hosts_;
};

// Work on a device queue: wait() makes the compute queue wait, never the host.
class QueuedWork final : public Work::Pending {
 public:
  QueuedWork(Queue& compute, Event finished) : compute_(compute), finished_(std::move(finished)) {}

  // The cause of the call may be a lost device, whose error is already propagating.
  bool done() override {
    try {
      return compute_.has_passed(finished_);
    } catch (const std::exception&) {
      return false;
    }
  }
  void wait() override { compute_.wait(finished_); }
  void detach() override {
    try {
      wait();
    } catch (const std::exception&) {
    }
  }

 private:
  Queue& compute_;
  Event finished_;
};

class DeviceCommunicator final : public Communicator, public WatchedGroup {
 public:
  DeviceCommunicator(Device& device, DeviceWatch& watch, const CollectiveTable& library,
                     std::unique_ptr<Communicator> hosts, std::unique_ptr<OutsideGroup> outside,
                     const std::string& name, const DeviceGroupOptions& options)
      : Communicator(hosts->world_ranks(), hosts->rank(), name),
        device_(device),
        watch_(watch),
        library_(library),
        hosts_(std::move(hosts)),
        outside_(std::move(outside)),
        messages_(*hosts_),
        options_(options),
        queue_(device.queue(options.queue)),
        compute_(device.queue()) {
    TRIREME_CHECK(options.staging_bytes >= least_staging * size());
    CollectiveId id;
    if (rank() == 0) require(library_.make_id(&id), "making an id");
    hosts_->broadcast(&id, sizeof id, DType::u8, 0, {"joining"}).wait();
    join(id);
    watch_.add(*this);
  }

  ~DeviceCommunicator() override {
    try {
      queue_.synchronize();
    } catch (const std::exception&) {
      abort();
    }
    watch_.remove(*this);
    if (!aborted_.exchange(true)) static_cast<void>(library_.destroy(communicator_));
  }

  Communicator& on_host() override { return *hosts_; }

  Work all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction,
                  Label label) override {
    if (count == 0) return {};
    return run(label, {}, [&] {
      if (in_order(dtype, reduction)) return reduce_all_in_order(data, count, dtype, reduction);
      require(library_.all_reduce(data, count, dtype, reduction == Reduction::max, communicator_,
                                  queue_),
              label);
    });
  }

  Work reduce_scatter(const void* src, void* dst, std::int64_t count, DType dtype,
                      Reduction reduction, Label label) override {
    if (count == 0) return {};
    return run(label, {}, [&] {
      if (in_order(dtype, reduction)) return scatter_in_order(src, dst, count, dtype, reduction);
      require(library_.reduce_scatter(src, dst, count, dtype, reduction == Reduction::max,
                                      communicator_, queue_),
              label);
    });
  }

  Work all_gather(const void* src, void* dst, std::int64_t count, DType dtype,
                  Label label) override {
    if (count == 0) return {};
    return run(label, {}, [&] {
      require(
          library_.all_gather(src, dst, count * size_of(dtype), DType::u8, communicator_, queue_),
          label);
    });
  }

  Work broadcast(void* data, std::int64_t count, DType dtype, int root, Label label) override {
    if (count == 0) return {};
    return run(label, {}, [&] {
      require(
          library_.broadcast(data, count * size_of(dtype), DType::u8, root, communicator_, queue_),
          label);
    });
  }

  Work all_to_all(const void* src, void* dst, std::int64_t count, DType dtype,
                  Label label) override {
    if (count == 0) return {};
    const std::int64_t bytes = count * size_of(dtype);
    return run(label, {}, [&] {
      queue_.copy(at(dst, rank() * bytes), at(src, rank() * bytes), bytes);
      const Together together(*this);
      for_peers([&](int k) {
        send(at(src, k * bytes), bytes, k);
        receive(at(dst, k * bytes), bytes, k);
      });
    });
  }

  Work barrier(Label label) override { return hosts_->barrier(label); }

  Work exchange(std::span<const Transfer> transfers, Label label) override {
    if (transfers.empty()) return {};
    return run(label, transfers, [&] {
      const Together together(*this);
      for (const Transfer& t : transfers) {
        const std::int64_t bytes = t.count * size_of(t.dtype);
        if (t.direction == Transfer::Direction::send) {
          send(t.data, bytes, t.peer);
        } else {
          receive(t.data, bytes, t.peer);
        }
      }
    });
  }

  // WatchedGroup:
  void check() override {
    if (aborted_) return;
    if (const int error = library_.async_error(communicator_))
      fail("{}: group {}: {}", library_.name(), name(), library_.error_text(error));
  }
  void abort() noexcept override {
    if (!aborted_.exchange(true)) static_cast<void>(library_.abort(communicator_));
  }

 private:
  // Calls in the scope of this object start together.
  class Together {
   public:
    explicit Together(DeviceCommunicator& group) : group_(group) {
      group_.require(group_.library_.group_start(), "starting messages");
    }
    ~Together() noexcept(false) {
      const int error = group_.library_.group_end();
      if (std::uncaught_exceptions() == 0) group_.require(error, "starting messages");
    }
    Together(const Together&) = delete;
    Together& operator=(const Together&) = delete;

   private:
    DeviceCommunicator& group_;
  };

  void require(int error, const Label& what) const {
    if (error) {
      fail("{}: cannot start '{}' of group {}: {}", library_.name(), what.text(), name(),
           library_.error_text(error));
    }
  }

  // State shared between the thread that joins the group and the one that waits or gave up.
  struct Joining {
    std::atomic<bool> over{false};
    int error = 0;
    void* communicator = nullptr;
  };

  // The library's call returns once all ranks have made it and has no time limit: it would wait
  // forever for a rank that is gone.
  void join(const CollectiveId& id) {
    const auto joining = std::make_shared<Joining>();
    std::thread([joining, id, join = library_.join, size = size(), rank = rank(),
                 messages = &messages_] {
      joining->error = join(&joining->communicator, size, id, rank, messages);
      joining->over = true;
    }).detach();
    const auto operation = outside_->call({"joining"}, {});
    operation->reach();
    RunningTime time;
    for (int round = 0; !joining->over; ++round) {
      watch_.waiting(round);
      operation->check(time.seconds());
    }
    operation->finish();
    require(joining->error, "joining");
    communicator_ = joining->communicator;
  }

  // The ordering rule: the operation runs after all work on the compute queue, and the compute
  // queue runs after it if somebody waits.
  template <class Body>
  Work run(const Label& label, std::span<const Transfer> transfers, const Body& body) {
    if (aborted_) fail("group {} was aborted", name());
    WatchedOperation operation;
    operation.outside = outside_->call(label, transfers);
    compute_.record(operation.ready);
    if (!on_compute()) queue_.wait(operation.ready);
    body();
    queue_.record(operation.finished);
    const Event finished = operation.finished;
    watch_.add(options_.queue, std::move(operation));
    if (on_compute()) return {};
    return Work(std::make_unique<QueuedWork>(compute_, finished));
  }

  bool on_compute() const { return options_.queue == QueueRole::compute; }

  bool in_order(DType dtype, Reduction reduction) const {
    if (reduction == Reduction::tree) return true;
    switch (dtype) {
      case DType::i64:
      case DType::i32:
      case DType::u8:
        return false;
      case DType::f32:
      case DType::f64:
        return options_.fixed_order || reduction == Reduction::max;  // our max propagates NaN
      case DType::bf16:
      case DType::f16:
        return true;
      case DType::u16:
        break;
    }
    fail("internal error: no device adds {}", name_of(dtype));
  }

  void send(const void* data, std::int64_t bytes, int peer) {
    if (bytes > 0)
      require(library_.send(data, bytes, DType::u8, peer, communicator_, queue_), "a send");
  }
  void receive(void* data, std::int64_t bytes, int peer) {
    if (bytes > 0)
      require(library_.receive(data, bytes, DType::u8, peer, communicator_, queue_), "a receive");
  }

  template <class Body>
  void for_peers(const Body& body) const {
    for (int step = 1; step < size(); ++step) body((rank() + step) % size());
  }

  static const std::byte* at(const void* p, std::int64_t bytes) {
    return static_cast<const std::byte*>(p) + bytes;
  }
  static std::byte* at(void* p, std::int64_t bytes) { return static_cast<std::byte*>(p) + bytes; }

  void add_parts(void* dst, const void* mine, std::int64_t stride, std::int64_t count, DType dtype,
                 Reduction reduction) {
    if (reduction == Reduction::tree) return add_in_tree(dst, mine, stride, count, dtype);
    device_.state_kernels().reduce_parts(queue_, dtype, reduction == Reduction::max, dst, mine,
                                         options_.staging, stride, size(), rank(), count);
  }

  // The tree of PartReduction (comm/reduction.cpp), whose sums replace their left summand.
  void add_in_tree(void* dst, const void* mine, std::int64_t stride, std::int64_t count,
                   DType dtype) {
    TRIREME_CHECK(dtype == DType::f32 || dtype == DType::f64);
    const std::int64_t element = size_of(dtype), bytes = count * element;
    const auto part = [&](int k) { return options_.staging + k * stride * element; };
    queue_.copy(part(rank()), mine, bytes);
    for (int width = 1; width < size(); width *= 2)
      for (int k = 0; k + width < size(); k += 2 * width)
        device_.state_kernels().add(queue_, dtype, part(k), part(k + width), count);
    queue_.copy(dst, part(0), bytes);
  }

  // Elements per rank that fit in the staging memory, such that 16-byte packs stay aligned.
  std::int64_t room(DType dtype) const {
    return options_.staging_bytes / size() / least_staging * least_staging / size_of(dtype);
  }

  void scatter_in_order(const void* src, void* dst, std::int64_t count, DType dtype,
                        Reduction reduction) {
    const std::int64_t turn = room(dtype), element = size_of(dtype);
    for (std::int64_t begin = 0; begin < count; begin += turn) {
      const std::int64_t some = std::min(turn, count - begin);
      const auto part = [&](int k) { return at(src, (k * count + begin) * element); };
      {
        const Together together(*this);
        for_peers([&](int k) {
          send(part(k), some * element, k);
          receive(options_.staging + k * turn * element, some * element, k);
        });
      }
      add_parts(at(dst, begin * element), part(rank()), turn, some, dtype, reduction);
    }
  }

  void reduce_all_in_order(void* data, std::int64_t count, DType dtype, Reduction reduction) {
    const std::int64_t element = size_of(dtype), turn = room(dtype);
    if (count <= turn && count * element <= small_bytes && size() <= small_group) {
      {
        const Together together(*this);
        for_peers([&](int k) {
          send(data, count * element, k);
          receive(options_.staging + k * turn * element, count * element, k);
        });
      }
      return add_parts(data, data, turn, count, dtype, reduction);
    }
    for (std::int64_t begin = 0; begin < count; begin += turn * size())
      reduce_turn(at(data, begin * element), std::min(turn * size(), count - begin), dtype,
                  reduction);
  }

  // Each rank reduces one part; then all parts are gathered.
  void reduce_turn(std::byte* data, std::int64_t count, DType dtype, Reduction reduction) {
    const std::int64_t element = size_of(dtype), stride = room(dtype);
    const std::int64_t pack = least_staging / element;
    const std::int64_t longest = (count + size() * pack - 1) / (size() * pack) * pack;
    const auto begin = [&](int k) { return std::min(count, k * longest); };
    const auto length = [&](int k) { return begin(k + 1) - begin(k); };
    const auto part = [&](int k) { return data + begin(k) * element; };
    {
      const Together together(*this);
      for_peers([&](int k) {
        send(part(k), length(k) * element, k);
        receive(options_.staging + k * stride * element, length(rank()) * element, k);
      });
    }
    if (length(rank()) > 0)
      add_parts(part(rank()), part(rank()), stride, length(rank()), dtype, reduction);
    const Together together(*this);
    for_peers([&](int k) {
      send(part(rank()), length(rank()) * element, k);
      receive(part(k), length(k) * element, k);
    });
  }

  Device& device_;
  DeviceWatch& watch_;
  const CollectiveTable& library_;
  const std::unique_ptr<Communicator> hosts_;
  const std::unique_ptr<OutsideGroup> outside_;
  MessagesOf messages_;
  const DeviceGroupOptions options_;
  Queue& queue_;
  Queue& compute_;
  void* communicator_ = nullptr;
  std::atomic<bool> aborted_{false};
};

}  // namespace

std::unique_ptr<Communicator> make_device_communicator(Device& device, DeviceWatch& watch,
                                                       Transport& transport, std::vector<int> ranks,
                                                       const std::string& name,
                                                       const DeviceGroupOptions& options) {
  std::string problem;
  const CollectiveTable* const library = device.collectives(problem);
  TRIREME_CHECK(library);
  auto hosts = transport.group(ranks, name + " on the host");
  auto outside = transport.outside_group(ranks, name);
  return std::make_unique<DeviceCommunicator>(device, watch, *library, std::move(hosts),
                                              std::move(outside), name, options);
}

}  // namespace trireme
