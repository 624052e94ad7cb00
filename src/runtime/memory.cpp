// Blocks of device memory, and the system's memory statistics.
#include "runtime/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/device.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace trireme {

void MemoryPlan::merge(const MemoryPlan& other) {
  for (const MemoryRegion& region : other.regions) {
    const auto same = std::find_if(regions.begin(), regions.end(), [&](const MemoryRegion& known) {
      return known.name == region.name;
    });
    if (same == regions.end()) {
      regions.push_back(region);
    } else {
      same->bytes += region.bytes;
    }
  }
}

std::int64_t MemoryPlan::total() const {
  std::int64_t sum = 0;
  for (const MemoryRegion& region : regions) sum += region.bytes;
  return sum;
}

std::string bytes_to_text(std::int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, units[unit]);
}

std::string to_text(const MemoryPlan& plan) {
  std::size_t width = 5;
  for (const MemoryRegion& region : plan.regions) width = std::max(width, region.name.size());
  std::string text;
  for (const MemoryRegion& region : plan.regions) {
    if (region.bytes == 0) continue;
    text += fmt::format("  {:<{}} {:>12}  {:>16} bytes\n", region.name, width,
                        bytes_to_text(region.bytes), region.bytes);
  }
  return text + fmt::format("  {:<{}} {:>12}  {:>16} bytes\n", "total", width,
                            bytes_to_text(plan.total()), plan.total());
}

MemoryBlock::MemoryBlock(Device& device, std::int64_t bytes, const std::string& what)
    : device_(&device), bytes_(bytes) {
  if (bytes == 0) return;
  data_ = device.allocate(bytes);
  if (!data_) {
    throw OutOfMemory(fmt::format(
        "{} has no {} left for '{}' ({} are allocated{})", device.name(), bytes_to_text(bytes),
        what, bytes_to_text(device.allocated()),
        device.memory_bytes() > 0 ? ", of " + bytes_to_text(device.memory_bytes()) : ""));
  }
}

MemoryBlock::~MemoryBlock() {
  if (data_) device_->release(data_, bytes_);
}

MemoryBlock::MemoryBlock(MemoryBlock&& other) noexcept
    : device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

MemoryBlock& MemoryBlock::operator=(MemoryBlock&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

HostBlock::HostBlock(Device& device, std::int64_t bytes, const std::string& what)
    : device_(device), bytes_(bytes), data_(device.allocate_host(bytes)) {
  if (!data_) {
    fail(
        "the host has no {} left for {}, a staging buffer for GPU copies ({} are allocated): "
        "offload less, or use more machines",
        bytes_to_text(bytes), what, bytes_to_text(device.allocated_host()));
  }
  if (!device.computes()) return;
  constexpr std::int64_t at_once = 8 << 20;
  parallel_ranges(bytes, at_once, [&](std::int64_t begin, std::int64_t end) {
    std::memset(data_ + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

HostBlock::~HostBlock() {
  device_.release_host(data_, bytes_);
}

std::int64_t peak_resident_bytes() {
  struct rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace trireme
