// A test's tensors in device memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/device.h"

namespace trireme {

// A copy of `values` in device memory.
template <class T>
class OnDevice {
 public:
  OnDevice(Device& device, const std::vector<T>& values)
      : device_(device), count_(values.size()), memory_(device.allocate(bytes())) {
    set(values);
  }
  OnDevice(Device& device, std::size_t count) : OnDevice(device, std::vector<T>(count)) {}
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { device_.release(memory_, bytes()); }

  T* get() const { return reinterpret_cast<T*>(memory_); }
  void set(const std::vector<T>& values) {
    device_.write(memory_, bytes(),
                  [&](std::byte* host) { std::memcpy(host, values.data(), bytes_used()); });
  }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    device_.read(memory_, bytes(),
                 [&](const std::byte* host) { std::memcpy(values.data(), host, bytes_used()); });
    return values;
  }

 private:
  std::size_t bytes_used() const { return count_ * sizeof(T); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(count_ * sizeof(T)) + 1; }

  Device& device_;
  std::size_t count_;
  std::byte* memory_;
};

// Scratch memory of exactly `bytes`: the memory behind it must stay unchanged.
class GuardedScratch {
 public:
  GuardedScratch(Device& device, std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        memory_(device, std::vector<std::uint8_t>(bytes_ + guard, 0x5a)) {}

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(memory_.get());
  }
  bool was_kept_to() const {
    const std::vector<std::uint8_t> all = memory_.values();
    return std::all_of(all.begin() + static_cast<std::ptrdiff_t>(bytes_), all.end(),
                       [](std::uint8_t byte) { return byte == 0x5a; });
  }

 private:
  static constexpr std::size_t guard = 256;

  std::size_t bytes_;
  OnDevice<std::uint8_t> memory_;
};

}  // namespace trireme
