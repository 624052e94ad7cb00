// Operations on host copies of their inputs and outputs.
#include "comm/staged.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace trireme {
namespace {

using Bytes = std::vector<std::byte>;

// Host memory to be copied to device memory when the operation is complete.
struct Delivery {
  void* dst;
  const std::byte* src;
  std::int64_t bytes;
};

struct StagedOperation {
  Device& device;
  std::deque<Bytes> host;  // references to its elements stay valid
  std::vector<Delivery> deliveries;
  Work work;

  // Copies device memory; empty on a device that computes nothing, since nothing reads it.
  Bytes& copy_of(const void* src, std::int64_t bytes) {
    Bytes& copy = host.emplace_back();
    if (bytes > 0) device.read(src, bytes, [&](const std::byte* p) { copy.assign(p, p + bytes); });
    return copy;
  }
  // Allocates host memory to receive into.
  Bytes& place_for(std::int64_t bytes) {
    return host.emplace_back(device.computes() ? static_cast<std::size_t>(bytes) : 0);
  }
  void deliver() {
    for (const Delivery& d : std::exchange(deliveries, {})) {
      device.write(d.dst, d.bytes,
                   [&](std::byte* p) { std::memcpy(p, d.src, static_cast<std::size_t>(d.bytes)); });
    }
  }
};

// Keeps operations that were never waited for: the inner ones still use their buffers.
void keep(std::unique_ptr<StagedOperation> operation) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<StagedOperation>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(operation));
}

class StagedWork final : public Work::Pending {
 public:
  explicit StagedWork(std::unique_ptr<StagedOperation> operation)
      : operation_(std::move(operation)) {}

  bool done() override {
    if (!operation_->work.done()) return false;
    operation_->deliver();
    return true;
  }
  void wait() override {
    operation_->work.wait();
    operation_->deliver();
  }
  void detach() override {
    if (!operation_->work.done()) keep(std::move(operation_));
  }

 private:
  std::unique_ptr<StagedOperation> operation_;
};

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(Device& device, std::unique_ptr<Communicator> inner)
      : Communicator(inner->world_ranks(), inner->rank(), inner->name()),
        device_(device),
        inner_(std::move(inner)) {}

  Communicator& on_host() override { return *inner_; }

  Work all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction,
                  Label label) override {
    auto op = begin();
    Bytes& copy = op->copy_of(data, count * size_of(dtype));
    return finish(std::move(op), data, copy, count, dtype,
                  [&] { return inner_->all_reduce(copy.data(), count, dtype, reduction, label); });
  }

  Work reduce_scatter(const void* src, void* dst, std::int64_t count, DType dtype,
                      Reduction reduction, Label label) override {
    auto op = begin();
    const Bytes& whole = op->copy_of(src, size() * count * size_of(dtype));
    Bytes& part = op->place_for(count * size_of(dtype));
    return finish(std::move(op), dst, part, count, dtype, [&] {
      return inner_->reduce_scatter(whole.data(), part.data(), count, dtype, reduction, label);
    });
  }

  Work all_gather(const void* src, void* dst, std::int64_t count, DType dtype,
                  Label label) override {
    auto op = begin();
    const Bytes& part = op->copy_of(src, count * size_of(dtype));
    Bytes& whole = op->place_for(size() * count * size_of(dtype));
    return finish(std::move(op), dst, whole, size() * count, dtype, [&] {
      return inner_->all_gather(part.data(), whole.data(), count, dtype, label);
    });
  }

  Work broadcast(void* data, std::int64_t count, DType dtype, int root, Label label) override {
    auto op = begin();
    Bytes& copy = op->copy_of(data, count * size_of(dtype));
    return finish(std::move(op), data, copy, count, dtype,
                  [&] { return inner_->broadcast(copy.data(), count, dtype, root, label); });
  }

  Work all_to_all(const void* src, void* dst, std::int64_t count, DType dtype,
                  Label label) override {
    auto op = begin();
    const Bytes& sent = op->copy_of(src, size() * count * size_of(dtype));
    Bytes& received = op->place_for(size() * count * size_of(dtype));
    return finish(std::move(op), dst, received, size() * count, dtype, [&] {
      return inner_->all_to_all(sent.data(), received.data(), count, dtype, label);
    });
  }

  Work barrier(Label label) override { return inner_->barrier(label); }

  Work exchange(std::span<const Transfer> transfers, Label label) override {
    auto op = begin();
    std::vector<Transfer> on_host(transfers.begin(), transfers.end());
    for (Transfer& transfer : on_host) {
      const std::int64_t bytes = transfer.count * size_of(transfer.dtype);
      if (transfer.direction == Transfer::Direction::send) {
        transfer.data = op->copy_of(transfer.data, bytes).data();
      } else {
        Bytes& place = op->place_for(bytes);
        op->deliveries.push_back({transfer.data, place.data(), bytes});
        transfer.data = place.data();
      }
    }
    op->work = inner_->exchange(on_host, label);
    return Work(std::make_unique<StagedWork>(std::move(op)));
  }

 private:
  std::unique_ptr<StagedOperation> begin() {
    return std::unique_ptr<StagedOperation>(new StagedOperation{device_, {}, {}, {}});
  }

  template <class Start>
  Work finish(std::unique_ptr<StagedOperation> op, void* dst, const Bytes& result,
              std::int64_t count, DType dtype, const Start& start) {
    if (count > 0) op->deliveries.push_back({dst, result.data(), count * size_of(dtype)});
    op->work = start();
    return Work(std::make_unique<StagedWork>(std::move(op)));
  }

  Device& device_;
  std::unique_ptr<Communicator> inner_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(Device& device,
                                                       std::unique_ptr<Communicator> inner) {
  return std::make_unique<StagedCommunicator>(device, std::move(inner));
}

}  // namespace trireme
