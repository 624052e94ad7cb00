// Memory that must outlive its owner, because abandoned operations may still write to it and a
// crash would hide the error that led to abandoning them.
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

// Holds the ranges until release_memory() is called with the returned number. Thread-safe.
std::uint64_t hold_memory(std::vector<MemoryRange> ranges);
void release_memory(std::uint64_t number);

// Frees a block that its owner gives up: now, or once none of it is held.
void free_when_released(MemoryRange block, std::function<void()> free);

}  // namespace trireme
