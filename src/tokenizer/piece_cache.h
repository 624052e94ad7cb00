// A small cache from short pieces of text to their ids: one per thread, so that it needs no locks.
// Real text repeats itself: about 99 of 100 pieces are found here and cost no look-up elsewhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace trireme {

// A piece of at most 15 bytes as two words: the bytes, zeros, and the length in the last byte.
struct PieceKey {
  std::uint64_t low;
  std::uint64_t high;

  static constexpr std::size_t kMaxLength = 15;

  // `readable_end` bounds what may be read, which is more than the piece.
  static PieceKey of(const char* piece, std::size_t length, const char* readable_end) {
    PieceKey key;
    if (readable_end - piece >= 16) {
      std::memcpy(&key, piece, 16);
      if (length < 8) {
        key.low &= (std::uint64_t{1} << 8 * length) - 1;
        key.high = 0;
      } else {
        key.high &= (std::uint64_t{1} << 8 * (length - 8)) - 1;
      }
    } else {
      key = {0, 0};
      std::memcpy(&key, piece, length);
    }
    key.high |= std::uint64_t{length} << 56;
    return key;
  }
};

class PieceCache {
 public:
  static constexpr int kMaxIds = 4;

  struct Entry {
    std::uint64_t low;
    std::uint64_t
        high;  // as in the key, but with the number of ids in the upper half of its last byte
    std::int32_t ids[kMaxIds];

    bool holds(const PieceKey& key) const {
      return ((low ^ key.low) | (high ^ key.high) << 4) == 0;
    }
    std::size_t count() const { return high >> 60; }
    void set(const PieceKey& key, const std::int32_t* from, std::size_t count) {
      low = key.low;
      high = key.high | std::uint64_t{count} << 60;
      std::copy_n(from, count, ids);
    }
  };

  // The entry that holds `key`, or null.
  const Entry* find(const PieceKey& key) const {
    const Line& line = lines_[home(key)];
    if (line.recent.holds(key)) return &line.recent;
    return line.older.holds(key) ? &line.older : nullptr;
  }

  // Stores `count` <= kMaxIds ids for `key`; the older entry of its line is forgotten.
  void put(const PieceKey& key, const std::int32_t* ids, std::size_t count) {
    Line& line = lines_[home(key)];
    line.older = line.recent;
    line.recent.set(key, ids, count);
  }

  // The calling thread's cache for a tokenizer with this serial number. A thread keeps a few; the
  // one that was used longest ago makes room.
  static PieceCache& of_this_thread(std::uint64_t serial);

 private:
  static constexpr int kBits = 15;

  // A line of the processor's cache: where a key falls, two entries fit.
  struct alignas(64) Line {
    Entry recent;
    Entry older;
  };

  static std::size_t home(const PieceKey& key) {
    const std::uint64_t mixed = (key.low ^ key.high * 0xD6E8FEB86659FD93) * 0x9E3779B97F4A7C15;
    return mixed >> (64 - kBits);
  }

  std::vector<Line> lines_ = std::vector<Line>(std::size_t{1} << kBits);
};

// A number that no other tokenizer of this process has had.
std::uint64_t next_tokenizer_serial();

}  // namespace trireme
