// Helpers for checks of a library on a device: operands in device memory,
// and tolerances of results.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/device.h"
#include "base/error.h"

namespace trireme::gpu {

// An operand in device memory.
class OnDevice {
 public:
  OnDevice(Device& device, std::int64_t bytes)
      : device_(device), bytes_(bytes), memory_(device.allocate(bytes)) {
    if (!memory_) fail("there is no memory on {} to compare its library with", device.name());
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { device_.release(memory_, bytes_); }

  void* get() const { return memory_; }

  // Calls fill(elements, count).
  template <class T, class Fill>
  void write(const Fill& fill) {
    device_.write(memory_, bytes_, [&](std::byte* host) {
      fill(reinterpret_cast<T*>(host), bytes_ / static_cast<std::int64_t>(sizeof(T)));
    });
  }
  // Fills with pseudo-random numbers in [-1, 1], different for each seed.
  template <class T>
  void draw(std::uint32_t seed) {
    write<T>([&](T* values, std::int64_t count) {
      std::uint32_t state = seed * 2654435761u + 1;
      for (std::int64_t i = 0; i < count; ++i) {
        state = state * 1664525u + 1013904223u;
        values[i] = T(static_cast<float>(state >> 8) * 0x1p-23f - 1);
      }
    });
  }
  template <class T>
  std::vector<T> values() const {
    std::vector<T> values(static_cast<std::size_t>(bytes_) / sizeof(T));
    device_.read(memory_, bytes_, [&](const std::byte* host) {
      std::memcpy(values.data(), host, static_cast<std::size_t>(bytes_));
    });
    return values;
  }

 private:
  Device& device_;
  std::int64_t bytes_;
  std::byte* memory_;
};

// Tolerance relative to the largest element: two roundings to T, and sums of 200 products in fp32.
template <class T>
constexpr double allowed_of() {
  if constexpr (std::is_same_v<T, bf16>) return 0x1p-7;
  if constexpr (std::is_same_v<T, f16>) return 0x1p-10;
  return 1e-5;
}

template <class C>
double difference(const std::vector<C>& tested, const std::vector<C>& trusted) {
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < trusted.size(); ++i) {
    const double is = static_cast<float>(tested[i]), should = static_cast<float>(trusted[i]);
    if (!std::isfinite(is)) return INFINITY;
    largest = std::max(largest, std::fabs(should));
    error = std::max(error, std::fabs(is - should));
  }
  return error / largest;
}

}  // namespace trireme::gpu
