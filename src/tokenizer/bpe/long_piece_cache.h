// Caches the ids of pieces that are long or have many ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace trireme {

class LongPieceCache {
 public:
  static constexpr std::size_t kMaxLength = 1024;  // bytes

  // Hash of a piece of 8 to kMaxLength bytes.
  static std::uint64_t hash_of(std::string_view piece) {
    constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;
    const auto word_at = [&](std::size_t at) {
      std::uint64_t word;
      std::memcpy(&word, piece.data() + at, 8);
      return word;
    };
    std::uint64_t hash = piece.size() * 0xD6E8FEB86659FD93;
    const std::size_t last = piece.size() - 8;  // may overlap the word before it
    for (std::size_t at = 0; at < last; at += 8) hash = mix(hash ^ word_at(at), kFactor);
    return mix(hash ^ word_at(last), kFactor) * kFactor;
  }

  void prefetch(std::uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash >> (64 - kBits)]);
  }

  // Returns the ids of a piece; empty if it is not cached.
  std::span<const std::int32_t> find(std::string_view piece, std::uint64_t hash) const {
    if (slots_.empty()) return {};
    const Slot& slot = slots_[hash >> (64 - kBits)];
    if (slot.hash != hash || slot.length != piece.size()) return {};
    const std::int32_t* ids = store_.data() + slot.begin;
    if (std::memcmp(ids + slot.count, piece.data(), piece.size()) != 0) return {};
    return {ids, slot.count};
  }

  // Stores the ids of a piece unless they are too many; clears the cache when its memory is full.
  void put(std::string_view piece, std::uint64_t hash, std::span<const std::int32_t> ids);

 private:
  static constexpr int kBits = 15;
  static constexpr std::size_t kMaxIds = 4 * kMaxLength;
  static constexpr std::size_t kMaxStore = 1 << 20;  // ids: 4 MiB

  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t begin = 0;   // in store_: the ids, then the bytes
    std::uint16_t length = 0;  // of the piece; 0: empty
    std::uint16_t count = 0;
  };

  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  std::vector<Slot> slots_;  // allocated for the first piece
  std::vector<std::int32_t> store_;
};

}  // namespace trireme
