// Resolves addresses: every access is checked against the existing memory.
#pragma once

#include "backend/gpu/ptx/machine.h"
#include "backend/gpu/ptx/memory.h"

namespace trireme::ptx {

enum class Space : std::int64_t { generic, global, shared, local, parameter };
enum class Use { read, write };

[[noreturn]] void fail_access(int lane, const char* what, std::uint64_t address, std::size_t bytes);
[[noreturn]] void fail_global(int lane, std::uint64_t address, std::size_t bytes, Use use);

// Detects races between warps: access to bytes that another warp wrote since the last barrier, or a
// write to bytes that another warp read.
void note_use(Warp&, int lane, std::size_t offset, std::size_t bytes, Use use);

inline std::byte* shared_at(Warp& w, int lane, std::uint64_t address, std::size_t bytes, Use use) {
  const std::uint64_t offset = address - shared_base;
  const auto size = static_cast<std::uint64_t>(w.block->launch->shared_bytes);
  if (offset >= size || offset + bytes > size)
    fail_access(lane, "outside of the block's shared memory", address, bytes);
  note_use(w, lane, offset, bytes, use);
  return w.block->shared + offset;
}

std::byte* other_at(Warp&, int lane, Space, std::uint64_t address, std::size_t bytes, Use use);

// Returns the bytes at an address as seen by this lane. Throws Fault.
template <Space space>
std::byte* bytes_at(Warp& w, int lane, std::uint64_t address, std::size_t bytes, Use use) {
  if (address & (bytes - 1)) fail_access(lane, "not aligned", address, bytes);
  if constexpr (space == Space::global) {
    std::byte* const found = DeviceMemory::instance().bytes_at(address, bytes);
    if (!found) fail_global(lane, address, bytes, use);
    return found;
  } else if constexpr (space == Space::shared) {
    return shared_at(w, lane, address, bytes, use);
  } else {
    return other_at(w, lane, space, address, bytes, use);
  }
}

}  // namespace trireme::ptx
