// Tests of a store in host memory, on queues that run as late and as far out of order as events
// allow: reads, writes and computations must take effect in the requested order.
#include "parallel/states/host_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>

#include "wrapped_device.h"

namespace trireme {
namespace {

constexpr std::int64_t page = TransferStore::alignment;
constexpr TransferUse use = {"what a test moves", "buy memory", "read",      "write",
                             "from a file",       "to a file",  "from host", "to host"};

// Queues that defer all work until a synchronization. Then the first queue in `order` that can
// proceed always does so: the last one runs only when the others wait for it.
class LateDevice final : public testing_device::WrappedDevice {
 public:
  using Order = std::array<QueueRole, 3>;
  explicit LateDevice(const Order& order) : order_(order) {}

  void around(const char*, const std::function<void()>& work) override { work(); }
  Queue& queue(QueueRole role = QueueRole::compute) override {
    return queues_.try_emplace(role, *this).first->second;
  }

 private:
  struct Work {
    std::function<void()> body;
    std::shared_ptr<bool> after;  // null: no constraint
  };
  class LateQueue final : public Queue {
   public:
    explicit LateQueue(LateDevice& device) : device_(device) {}

    void copy(void* dst, const void* src, std::int64_t bytes) override {
      work.push_back({[=] { std::memcpy(dst, src, static_cast<std::size_t>(bytes)); }, nullptr});
    }
    void fill(void* dst, std::uint8_t byte, std::int64_t bytes) override {
      work.push_back({[=] { std::memset(dst, byte, static_cast<std::size_t>(bytes)); }, nullptr});
    }
    void record(Event& event) override {
      const auto passed = std::make_shared<bool>(false);
      event.native = passed;
      work.push_back({[=] { *passed = true; }, nullptr});
    }
    void wait(const Event& event) override {
      if (event.native) work.push_back({[] {}, std::static_pointer_cast<bool>(event.native)});
    }
    void synchronize() override { device_.run(); }

    bool may_continue() const {
      return !work.empty() && (!work.front().after || *work.front().after);
    }
    std::deque<Work> work;

   private:
    LateDevice& device_;
  };

  void run() {
    const auto able = [&] {
      return std::find_if(order_.begin(), order_.end(),
                          [&](QueueRole role) { return queues_.at(role).may_continue(); });
    };
    for (auto next = able(); next != order_.end(); next = able()) {
      LateQueue& queue = queues_.at(*next);
      queue.work.front().body();
      queue.work.pop_front();
    }
    for (const auto& [role, queue] : queues_) EXPECT_TRUE(queue.work.empty());
  }

  Order order_;
  std::map<QueueRole, LateQueue> queues_;
};

// A store with one page that contains `stored`, and device pages that contain `before`.
struct Scene {
  static constexpr std::uint8_t stored = 3, before = 4;

  explicit Scene(const LateDevice::Order& order)
      : device(order), memory(device, 3 * page, "a test"), store(use, device, page) {
    for (const QueueRole role : order) device.queue(role);
    std::memset(memory.data(), before, static_cast<std::size_t>(memory.bytes()));
    store.write_now(0, page, [](std::byte* host) { std::memset(host, stored, page); });
  }

  std::byte* at(int index) const { return memory.data() + index * page; }
  void fill(int index, std::uint8_t byte) { device.queue().fill(at(index), byte, page); }
  void copy(int to, int from) { device.queue().copy(at(to), at(from), page); }
  TransferStore::Ticket read(int index) { return store.read({{at(index), 0, page}}, 0); }
  TransferStore::Ticket write(int index) { return store.write({{at(index), 0, page}}, 0); }

  // Returns the contents of a page after everything has run.
  int result(int index) {
    device.queue().synchronize();
    const std::byte* const first = at(index);
    EXPECT_TRUE(std::all_of(first, first + page, [&](std::byte b) { return b == *first; }));
    return std::to_integer<int>(*first);
  }

  LateDevice device;
  MemoryBlock memory;
  HostStore store;
};

template <class Body>
void in_every_order(const Body& body) {
  LateDevice::Order order = {QueueRole::compute, QueueRole::load, QueueRole::store};
  ASSERT_TRUE(std::is_sorted(order.begin(), order.end()));
  do {
    SCOPED_TRACE(testing::PrintToString(std::vector<int>{
        static_cast<int>(order[0]), static_cast<int>(order[1]), static_cast<int>(order[2])}));
    Scene scene(order);
    body(scene);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(HostStore, ReadsWhatIsBeingWritten) {
  in_every_order([](Scene& scene) {
    scene.fill(0, 7);
    scene.write(0);
    scene.store.wait(scene.read(1));
    scene.copy(2, 1);
    EXPECT_EQ(scene.result(2), 7);
  });
}

TEST(HostStore, ReadsIntoMemoryThatIsNoLongerNeeded) {
  in_every_order([](Scene& scene) {
    scene.copy(1, 0);
    scene.store.wait(scene.read(0));
    EXPECT_EQ(scene.result(0), Scene::stored);
    EXPECT_EQ(scene.result(1), Scene::before);
  });
}

TEST(HostStore, MemoryIsUsedAgainWhenItWasWritten) {
  in_every_order([](Scene& scene) {
    scene.fill(0, 7);
    scene.store.wait(scene.write(0));
    scene.fill(0, 9);
    scene.store.wait(scene.read(1));
    EXPECT_EQ(scene.result(1), 7);
    EXPECT_EQ(scene.result(0), 9);
  });
}

TEST(HostStore, WaitsForAllAtOnce) {
  in_every_order([](Scene& scene) {
    scene.read(1);
    scene.store.wait_for_all();  // a page that is being read must not be written
    scene.write(0);
    scene.store.wait_for_all();
    scene.fill(0, 9);
    scene.copy(2, 1);
    EXPECT_EQ(scene.result(2), Scene::stored);
    scene.store.wait(scene.read(1));
    EXPECT_EQ(scene.result(1), Scene::before);
  });
}

}  // namespace
}  // namespace trireme
