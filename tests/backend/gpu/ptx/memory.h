// The memory of the device that PTX runs on: addresses of its own that the host cannot read or
// write, and that are never given out twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace trireme::ptx {

// A device address is one of a reserved range without access rights, so that the host dies at its
// line when it follows one. The bytes lie elsewhere.
class DeviceMemory {
 public:
  static DeviceMemory& instance();

  // Aligned to 256 bytes; holds NaN. Null if `limit` bytes would be exceeded.
  void* allocate(std::size_t bytes);
  // False if no allocation begins there.
  bool release(void* memory);
  void set_limit(std::size_t bytes) { limit_ = bytes; }
  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_; }

  // True for an address of the range, live or not.
  bool owns(std::uint64_t address) const { return address - base_ < reserved; }
  // The bytes behind [address, address + bytes), which lie within one allocation and, where they
  // are not more than 16, do not cross a multiple of their own size. Null if they are not all live.
  std::byte* bytes_at(std::uint64_t address, std::size_t bytes) const {
    const std::uint64_t offset = address - base_;
    if (offset >= reserved) return nullptr;
    if ((offset & (page - 1)) + bytes > live_[offset / page]) return nullptr;
    return storage_ + offset;
  }
  // The same for any number of bytes.
  std::byte* range_at(std::uint64_t address, std::size_t bytes);
  // What is wrong with an address that bytes_at() refuses.
  std::string explain(std::uint64_t address, std::size_t bytes);

 private:
  static constexpr std::uint64_t reserved = std::uint64_t{64} << 30, page = 256;

  DeviceMemory();

  std::uint64_t base_;   // device addresses begin here
  std::byte* storage_;   // of the byte at base_
  std::uint16_t* live_;  // of each page, how many bytes from its beginning may be used
  std::uint64_t top_ = page;
  std::size_t used_ = 0, limit_ = std::size_t{16} << 30;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::size_t> sizes_;  // of what was ever allocated
};

}  // namespace trireme::ptx
