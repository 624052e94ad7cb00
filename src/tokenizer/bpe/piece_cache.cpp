// The caches of each thread, and the memory of long pieces.
#include "tokenizer/bpe/piece_cache.h"

#include <algorithm>
#include <atomic>
#include <memory>

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

void LongPieceCache::put(std::string_view piece, std::uint64_t hash,
                         std::span<const std::int32_t> ids) {
  if (ids.empty() || ids.size() > kMaxIds) return;
  const std::size_t size = ids.size() + (piece.size() + 3) / 4;
  if (slots_.empty() || store_.size() + size > kMaxStore) {
    slots_.assign(std::size_t{1} << kBits, {});
    store_.clear();
  }
  const std::size_t begin = store_.size();
  store_.insert(store_.end(), ids.begin(), ids.end());
  store_.resize(begin + size);
  std::memcpy(store_.data() + begin + ids.size(), piece.data(), piece.size());
  slots_[hash >> (64 - kBits)] = {hash, static_cast<std::uint32_t>(begin),
                                  static_cast<std::uint16_t>(piece.size()),
                                  static_cast<std::uint16_t>(ids.size())};
}

std::uint64_t next_tokenizer_serial() {
  static std::atomic<std::uint64_t> serial{0};
  return ++serial;
}

}  // namespace trireme
