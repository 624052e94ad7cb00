// Tensors of a test in a device's memory.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "backend/device.h"

namespace trireme {

// A copy of `values` in the memory of a device.
template <class T>
class OnDevice {
 public:
  OnDevice(Device& device, const std::vector<T>& values)
      : device_(device), count_(values.size()), memory_(device.allocate(bytes())) {
    device_.write(memory_, bytes(),
                  [&](std::byte* host) { std::memcpy(host, values.data(), bytes_used()); });
  }
  OnDevice(Device& device, std::size_t count) : OnDevice(device, std::vector<T>(count)) {}
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { device_.release(memory_, bytes()); }

  T* get() const { return reinterpret_cast<T*>(memory_); }
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

}  // namespace trireme
