// Memory of a run: named regions whose sizes are known before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/machine_memory.h"

namespace trireme {

class Device;

struct MemoryRegion {
  std::string name;
  std::int64_t bytes;
};

// Regions in printing order.
struct MemoryPlan {
  std::vector<MemoryRegion> regions;

  void add(std::string name, std::int64_t bytes) { regions.push_back({std::move(name), bytes}); }
  // Adds the regions of another plan; regions of the same name are merged.
  void merge(const MemoryPlan& other);
  std::int64_t total() const;
};

// One line per region and the total, aligned for reading.
std::string to_text(const MemoryPlan& plan);
// "1.25 GiB"
std::string bytes_to_text(std::int64_t bytes);

// Thrown if a device is out of memory: states the request, its purpose and what is allocated.
struct OutOfMemory : Error {
  explicit OutOfMemory(const std::string& message) : Error(ExitCode::failed, message) {}
};

// A zeroed, page-aligned block of device memory, counted by the device: the planned total must
// equal Device::allocated().
class MemoryBlock {
 public:
  MemoryBlock() = default;
  // The device must outlive the block. `what`: purpose, for messages. Throws OutOfMemory.
  MemoryBlock(Device& device, std::int64_t bytes, const std::string& what);
  ~MemoryBlock();
  MemoryBlock(MemoryBlock&& other) noexcept;
  MemoryBlock& operator=(MemoryBlock&& other) noexcept;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// A zeroed block of host memory that the device's queues copy from and to (Device::allocate_host),
// counted separately from device memory.
class HostBlock {
 public:
  // See MemoryBlock. Fails if the host has no more memory.
  HostBlock(Device& device, std::int64_t bytes, const std::string& what);
  ~HostBlock();
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;

  std::byte* data() const { return data_; }

 private:
  Device& device_;
  std::int64_t bytes_;
  std::byte* data_;
};

// Peak resident set size of this process in bytes.
std::int64_t peak_resident_bytes();

}  // namespace trireme
