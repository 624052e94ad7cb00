// Registry of held memory ranges and of blocks waiting to be freed.
#include "base/held_memory.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace trireme {
namespace {

struct Waiting {
  MemoryRange block;
  std::function<void()> free;
};

struct Registry {
  std::mutex mutex;
  std::uint64_t last = 0;
  std::map<std::uint64_t, std::vector<MemoryRange>> held;
  std::vector<Waiting> waiting;
};

// Never destroyed: blocks and operations may outlive static objects.
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

bool overlap(const MemoryRange& a, const MemoryRange& b) {
  const auto* a_begin = static_cast<const char*>(a.begin);
  const auto* b_begin = static_cast<const char*>(b.begin);
  return a_begin < b_begin + b.bytes && b_begin < a_begin + a.bytes;
}

bool is_held(const Registry& all, const MemoryRange& block) {
  return std::any_of(all.held.begin(), all.held.end(), [&](const auto& one) {
    return std::any_of(one.second.begin(), one.second.end(),
                       [&](const MemoryRange& range) { return overlap(range, block); });
  });
}

}  // namespace

std::uint64_t hold_memory(std::vector<MemoryRange> ranges) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.held.emplace(++all.last, std::move(ranges));
  return all.last;
}

void release_memory(std::uint64_t number) {
  std::vector<Waiting> free_now;
  Registry& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    all.held.erase(number);
    const auto kept = std::partition(all.waiting.begin(), all.waiting.end(),
                                     [&](const Waiting& w) { return is_held(all, w.block); });
    std::move(kept, all.waiting.end(), std::back_inserter(free_now));
    all.waiting.erase(kept, all.waiting.end());
  }
  for (const Waiting& one : free_now) one.free();
}

void free_when_released(MemoryRange block, std::function<void()> free) {
  Registry& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    if (is_held(all, block)) {
      all.waiting.push_back({block, std::move(free)});
      return;
    }
  }
  free();
}

}  // namespace trireme
