// The caches of each thread.
#include "tokenizer/piece_cache.h"

#include <algorithm>
#include <atomic>

namespace trireme {

PieceCache& PieceCache::of_this_thread(std::uint64_t serial) {
  struct Owned {
    std::uint64_t serial;
    std::unique_ptr<PieceCache> cache;
  };
  constexpr std::size_t kMost = 4;
  thread_local std::vector<Owned> caches;  // the latest used first
  const auto found = std::find_if(caches.begin(), caches.end(),
                                  [serial](const Owned& owned) { return owned.serial == serial; });
  if (found == caches.end()) {
    if (caches.size() == kMost) caches.pop_back();
    caches.insert(caches.begin(), {serial, std::make_unique<PieceCache>()});
  } else if (found != caches.begin()) {
    std::rotate(caches.begin(), found, found + 1);
  }
  return *caches.front().cache;
}

std::uint64_t next_tokenizer_serial() {
  static std::atomic<std::uint64_t> serial{0};
  return ++serial;
}

}  // namespace trireme
