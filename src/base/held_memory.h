// Memory that must outlive its owner: abandoned operations may still write to it, and a crash would
// hide the error for which they were abandoned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace trireme {

struct MemoryRange {
  const void* begin = nullptr;
  std::size_t bytes = 0;
};

// From now on until release_memory() with the number that this returns. Safe from any thread.
std::uint64_t hold_memory(std::vector<MemoryRange> ranges);
void release_memory(std::uint64_t number);

// The owner lets a block go: frees it now, or when nothing in it is held any more.
void free_when_released(MemoryRange block, std::function<void()> free);

}  // namespace trireme
