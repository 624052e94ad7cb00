// Reserves addresses and storage, and tracks live bytes.
#include "backend/gpu/ptx/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace trireme::ptx {
namespace {

void* reserve(std::size_t bytes, int access) {
  void* const memory =
      ::mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("PTX: no address space for device memory");
  return memory;
}

}  // namespace

DeviceMemory& DeviceMemory::instance() {
  static auto* const memory = new DeviceMemory;
  return *memory;
}

DeviceMemory::DeviceMemory()
    : base_(reinterpret_cast<std::uint64_t>(reserve(reserved, PROT_NONE))),
      storage_(static_cast<std::byte*>(reserve(reserved, PROT_READ | PROT_WRITE))),
      live_(static_cast<std::uint16_t*>(
          reserve(reserved / page * sizeof(std::uint16_t), PROT_READ | PROT_WRITE))) {}

void* DeviceMemory::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t pages = (bytes + page - 1) / page;
  if (used_ + bytes > limit_ || top_ + (pages + 1) * page > reserved) return nullptr;
  const std::uint64_t offset = top_;
  top_ += (pages + 1) * page;  // one page between two allocations is never live
  std::memset(storage_ + offset, 0xff, bytes);
  for (std::size_t i = 0; i < pages; ++i)
    live_[offset / page + i] = static_cast<std::uint16_t>(std::min(page, bytes - i * page));
  used_ += bytes;
  sizes_[offset] = bytes;
  return reinterpret_cast<void*>(base_ + offset);
}

bool DeviceMemory::release(void* memory) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t offset = reinterpret_cast<std::uint64_t>(memory) - base_;
  const auto found = sizes_.find(offset);
  if (found == sizes_.end() || live_[offset / page] == 0) return false;
  const std::size_t pages = (found->second + page - 1) / page;
  std::fill_n(live_ + offset / page, pages, std::uint16_t{0});
  used_ -= found->second;
  // Returns whole pages to the operating system; their addresses stay dead.
  constexpr std::uint64_t system_page = 4096;
  const std::uint64_t first = (offset + system_page - 1) / system_page * system_page;
  const std::uint64_t last = (offset + pages * page) / system_page * system_page;
  if (first < last) ::madvise(storage_ + first, last - first, MADV_DONTNEED);
  return true;
}

std::byte* DeviceMemory::range_at(std::uint64_t address, std::size_t bytes) {
  const std::uint64_t offset = address - base_;
  if (offset >= reserved) return nullptr;
  std::uint64_t at = offset;
  for (const std::uint64_t end = offset + bytes; at < end;) {
    const std::uint64_t length = std::min(end, (at / page + 1) * page) - at;
    if (at % page + length > live_[at / page]) return nullptr;
    at += length;
  }
  return storage_ + offset;
}

std::string DeviceMemory::explain(std::uint64_t address, std::size_t bytes) {
  if (!owns(address)) return "an address that is not the device's";
  const std::lock_guard lock(mutex_);
  const std::uint64_t offset = address - base_;
  std::uint64_t nearest = 0, next = reserved;
  std::size_t size = 0;
  for (const auto& [begin, length] : sizes_) {
    if (begin <= offset && begin >= nearest) nearest = begin, size = length;
    if (begin > offset && live_[begin / page] != 0) next = std::min(next, begin);
  }
  if (next - offset < page)
    return std::to_string(next - offset) + " bytes in front of an allocation";
  if (size == 0) return "an address in front of all allocations";
  if (live_[nearest / page] == 0) return "memory that was released";
  return "byte " + std::to_string(offset - nearest) + " to " +
         std::to_string(offset - nearest + bytes) + " of an allocation of " + std::to_string(size) +
         " bytes";
}

}  // namespace trireme::ptx
