// A device whose memory only its own operations may access, as on a GPU: a host access ends the
// test program with a segmentation fault at the offending line.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "wrapped_device.h"

namespace trireme {

class ClosedDevice final : public testing_device::WrappedDevice {
 public:
  void around(const char*, const std::function<void()>& work) override {
    const Opened opened(*this);
    work();
  }
  // Uses mirrors: `fill` and `use` run while the memory is closed, unless other threads work.
  void write(void* dst, std::int64_t bytes, const std::function<void(std::byte*)>& fill) override {
    std::vector<std::byte> mirror(static_cast<std::size_t>(bytes));
    fill(mirror.data());
    const Opened opened(*this);
    std::copy(mirror.begin(), mirror.end(), static_cast<std::byte*>(dst));
    written_ += bytes;
  }
  void read(const void* src, std::int64_t bytes,
            const std::function<void(const std::byte*)>& use) override {
    std::vector<std::byte> mirror(static_cast<std::size_t>(bytes));
    {
      const Opened opened(*this);
      std::copy_n(static_cast<const std::byte*>(src), mirror.size(), mirror.begin());
      read_ += bytes;
    }
    use(mirror.data());
  }

  // Number of bytes that the host has written and read so far.
  std::int64_t written() const { return written_; }
  std::int64_t read_by_host() const { return read_; }

 private:
  struct Opened {
    explicit Opened(ClosedDevice& owner) : device(owner) { device.open(1); }
    ~Opened() { device.open(-1); }
    ClosedDevice& device;
  };

  void open(int more) {
    const std::lock_guard lock(mutex_);
    const bool was_open = users_ > 0;
    users_ += more;
    if (was_open == (users_ > 0)) return;
    for (const auto& [memory, bytes] : blocks_) protect(memory, bytes);
  }
  void protect(std::byte* memory, std::int64_t bytes) const {
    ::mprotect(memory, static_cast<std::size_t>(bytes),
               users_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
  }

  std::byte* do_allocate(std::int64_t bytes) override {
    std::byte* memory = WrappedDevice::do_allocate(bytes);
    const std::lock_guard lock(mutex_);
    blocks_[memory] = bytes;
    protect(memory, bytes);
    return memory;
  }
  void do_release(std::byte* memory, std::int64_t bytes) override {
    {
      const std::lock_guard lock(mutex_);
      blocks_.erase(memory);
    }
    WrappedDevice::do_release(memory, bytes);
  }

  std::mutex mutex_;
  std::map<std::byte*, std::int64_t> blocks_;
  int users_ = 0;
  std::atomic<std::int64_t> written_ = 0, read_ = 0;
};

}  // namespace trireme
