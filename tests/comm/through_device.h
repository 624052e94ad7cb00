// Wraps a device communicator as one on host memory, so that the same checks serve both.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "backend/device.h"
#include "comm/communicator.h"

namespace trireme::testing_comm {

// Copies host memory to the device when an operation is called, and back when it is waited for.
class ThroughDevice final : public Communicator {
 public:
  ThroughDevice(Device& device, Communicator& inner)
      : Communicator(inner.world_ranks(), inner.rank(), inner.name()),
        device_(device),
        inner_(inner) {}

  Work all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction,
                  Label label) override {
    Copies copies(*this);
    void* const there = copies.in_and_out(data, count * size_of(dtype));
    return copies.finish(inner_.all_reduce(there, count, dtype, reduction, label));
  }
  Work reduce_scatter(const void* src, void* dst, std::int64_t count, DType dtype,
                      Reduction reduction, Label label) override {
    Copies copies(*this);
    const std::int64_t part = count * size_of(dtype);
    auto* const whole = copies.in(src, part * size());
    void* const to = is_part(src, dst, part) ? copies.out(dst, whole + rank() * part, part)
                                             : copies.in_and_out(dst, part);
    return copies.finish(inner_.reduce_scatter(whole, to, count, dtype, reduction, label));
  }
  Work all_gather(const void* src, void* dst, std::int64_t count, DType dtype,
                  Label label) override {
    Copies copies(*this);
    const std::int64_t part = count * size_of(dtype);
    std::byte* const whole = copies.in_and_out(dst, part * size());
    const void* const from = is_part(dst, src, part) ? whole + rank() * part : copies.in(src, part);
    return copies.finish(inner_.all_gather(from, whole, count, dtype, label));
  }
  Work broadcast(void* data, std::int64_t count, DType dtype, int root, Label label) override {
    Copies copies(*this);
    void* const there = copies.in_and_out(data, count * size_of(dtype));
    return copies.finish(inner_.broadcast(there, count, dtype, root, label));
  }
  Work all_to_all(const void* src, void* dst, std::int64_t count, DType dtype,
                  Label label) override {
    Copies copies(*this);
    const std::int64_t bytes = size() * count * size_of(dtype);
    const void* const from = copies.in(src, bytes);
    void* const to = copies.in_and_out(dst, bytes);
    return copies.finish(inner_.all_to_all(from, to, count, dtype, label));
  }
  Work barrier(Label label) override { return inner_.barrier(label); }
  Work exchange(std::span<const Transfer> transfers, Label label) override {
    Copies copies(*this);
    std::vector<Transfer> there(transfers.begin(), transfers.end());
    for (Transfer& t : there) t.data = copies.in_and_out(t.data, t.count * size_of(t.dtype));
    return copies.finish(inner_.exchange(there, label));
  }

 private:
  struct Copy {
    void* host;
    std::byte* there;
    std::int64_t bytes;
  };
  struct Memory {
    Device& device;
    std::byte* data;
    std::int64_t bytes;
    Memory(Device& d, std::int64_t n) : device(d), data(d.allocate(n)), bytes(n) {}
    ~Memory() { device.release(data, bytes); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
  };

  class Copies {
   public:
    explicit Copies(ThroughDevice& group) : device_(group.device_) {}

    std::byte* in(const void* host, std::int64_t bytes) {
      std::byte* const there =
          memory_.emplace_back(std::make_unique<Memory>(device_, bytes + 16))->data;
      device_.write(there, bytes,
                    [&](std::byte* to) { std::memcpy(to, host, static_cast<std::size_t>(bytes)); });
      return there;
    }
    std::byte* in_and_out(void* host, std::int64_t bytes) {
      return out(host, in(host, bytes), bytes);
    }
    std::byte* out(void* host, std::byte* there, std::int64_t bytes) {
      back_.push_back({host, there, bytes});
      return there;
    }
    Work finish(Work work) {
      return Work(std::make_unique<Pending>(device_, std::move(work), std::move(memory_),
                                            std::move(back_)));
    }

   private:
    Device& device_;
    std::vector<std::unique_ptr<Memory>> memory_;
    std::vector<Copy> back_;
  };

  class Pending final : public Work::Pending {
   public:
    Pending(Device& device, Work work, std::vector<std::unique_ptr<Memory>> memory,
            std::vector<Copy> back)
        : device_(device),
          memory_(std::move(memory)),
          back_(std::move(back)),
          work_(std::move(work)) {}
    bool done() override { return false; }
    void wait() override {
      work_.wait();
      for (const Copy& copy : back_) {
        device_.read(copy.there, copy.bytes, [&](const std::byte* from) {
          std::memcpy(copy.host, from, static_cast<std::size_t>(copy.bytes));
        });
      }
    }
    void detach() override {}

   private:
    Device& device_;
    std::vector<std::unique_ptr<Memory>> memory_;
    std::vector<Copy> back_;
    Work work_;
  };

  bool is_part(const void* whole, const void* part, std::int64_t bytes) const {
    return part == static_cast<const std::byte*>(whole) + rank() * bytes;
  }

  Device& device_;
  Communicator& inner_;
};

}  // namespace trireme::testing_comm
