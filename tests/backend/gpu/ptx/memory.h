// Memory of the device that runs PTX: it has its own addresses, which the host cannot access, and
// which are never reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace trireme::ptx {

// Device addresses lie in a reserved range without access rights, so that a host dereference
// crashes at its line. The bytes are stored elsewhere.
class DeviceMemory {
 public:
  static DeviceMemory& instance();

  // Returns memory aligned to 256 bytes and filled with NaN; null if it would exceed `limit` bytes.
  void* allocate(std::size_t bytes);
  // Returns false if no allocation begins there.
  bool release(void* memory);
  void set_limit(std::size_t bytes) { limit_ = bytes; }
  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_; }

  // Returns true for any address of the range, live or not.
  bool owns(std::uint64_t address) const { return address - base_ < reserved; }
  // Returns the bytes of [address, address + bytes), which must be in one allocation and, up to 16
  // bytes, must not cross a multiple of their own size. Null if they are not all live.
  std::byte* bytes_at(std::uint64_t address, std::size_t bytes) const {
    const std::uint64_t offset = address - base_;
    if (offset >= reserved) return nullptr;
    if ((offset & (page - 1)) + bytes > live_[offset / page]) return nullptr;
    return storage_ + offset;
  }
  // The same for ranges of any size.
  std::byte* range_at(std::uint64_t address, std::size_t bytes);
  // Describes what is wrong with an address that bytes_at() rejects.
  std::string explain(std::uint64_t address, std::size_t bytes);

 private:
  static constexpr std::uint64_t reserved = std::uint64_t{64} << 30, page = 256;

  DeviceMemory();

  std::uint64_t base_;   // start of device addresses
  std::byte* storage_;   // backing of base_
  std::uint16_t* live_;  // for each page, number of usable bytes from its start
  std::uint64_t top_ = page;
  std::size_t used_ = 0, limit_ = std::size_t{16} << 30;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::size_t> sizes_;  // of all allocations ever made
};

}  // namespace trireme::ptx
