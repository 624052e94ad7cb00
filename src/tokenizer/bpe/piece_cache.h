// A cache from pieces of text to their ids: one per thread, so that it needs no locks. Real text
// repeats itself: about 99 of 100 pieces are found here and cost no look-up elsewhere.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/long_piece_cache.h"

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
      // A mask instead of branches: lengths of neighboring pieces cannot be predicted.
      PieceKey mask;
      std::memcpy(&key, piece, 16);
      std::memcpy(&mask, kMask.data() + 16 - length, 16);
      key.low &= mask.low;
      key.high &= mask.high;
    } else {
      key = {0, 0};
      std::memcpy(&key, piece, length);
    }
    key.high |= std::uint64_t{length} << 56;
    return key;
  }

 private:
  static constexpr std::array<unsigned char, 32> kMask = [] {
    std::array<unsigned char, 32> mask{};
    std::fill_n(mask.begin(), 16, static_cast<unsigned char>(0xFF));
    return mask;
  }();
};

class PieceCache {
 public:
  static constexpr int kMaxIds = 4;

  // Whether a piece is short enough. Of others neither a place nor ids can be had here.
  static bool takes(std::string_view piece) { return piece.size() <= LongPieceCache::kMaxLength; }

  // The ids of a short piece that has few.
  struct Entry {
    std::uint64_t low;
    std::uint64_t
        high;  // as in the key, but with the number of ids in the upper half of its last byte
    std::int32_t ids[kMaxIds];

    bool holds(const PieceKey& key) const {
      return ((low ^ key.low) | (high ^ key.high) << 4) == 0;
    }
    std::size_t count() const { return high >> 60; }
    void set(const PieceKey& key, std::span<const std::int32_t> from) {
      low = key.low;
      high = key.high | std::uint64_t{from.size()} << 60;
      std::copy(from.begin(), from.end(), ids);
    }
  };

  // A piece and the place where its entry would be.
  struct Place {
    PieceKey key;  // of a short piece
    std::string_view piece;
    std::uint64_t hash;
  };

  // Finds the place of a piece and asks the processor to load it.
  Place locate(std::string_view piece, const char* readable_end) const {
    Place place{.key = {}, .piece = piece, .hash = 0};
    if (piece.size() <= PieceKey::kMaxLength) {
      place.key = PieceKey::of(piece.data(), piece.size(), readable_end);
      place.hash = hash_of(place.key);
      __builtin_prefetch(&lines_[place.hash >> (64 - kBits)]);
    } else {
      place.hash = LongPieceCache::hash_of(piece);
      long_pieces_.prefetch(place.hash);
    }
    return place;
  }

  // The entry of a short piece that has few ids, or null.
  const Entry* find_short(const Place& place) const {
    if (place.piece.size() > PieceKey::kMaxLength) return nullptr;
    const Line& line = lines_[place.hash >> (64 - kBits)];
    if (line.recent.holds(place.key)) return &line.recent;
    return line.older.holds(place.key) ? &line.older : nullptr;
  }

  // The ids of any other piece: remembered, or appended to an empty vector by make(ids) and then
  // remembered. They are valid until the next call.
  template <class Make>
  std::span<const std::int32_t> find_or_make(const Place& place, Make&& make) {
    if (const auto known = long_pieces_.find(place.piece, place.hash); !known.empty()) return known;
    made_.clear();
    make(made_);
    if (place.piece.size() <= PieceKey::kMaxLength && made_.size() <= kMaxIds) {
      Line& line = lines_[place.hash >> (64 - kBits)];
      line.older = line.recent;
      line.recent.set(place.key, made_);
    } else {
      long_pieces_.put(place.piece, place.hash, made_);
    }
    return made_;
  }

  // The ids of any piece.
  template <class Make>
  std::span<const std::int32_t> ids_of(std::string_view piece, const char* readable_end,
                                       Make&& make) {
    const Place place = locate(piece, readable_end);
    if (const Entry* entry = find_short(place)) return {entry->ids, entry->count()};
    return find_or_make(place, make);
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

  static std::uint64_t hash_of(const PieceKey& key) {
    return (key.low ^ key.high * 0xD6E8FEB86659FD93) * 0x9E3779B97F4A7C15;
  }

  std::vector<Line> lines_ = std::vector<Line>(std::size_t{1} << kBits);
  LongPieceCache long_pieces_;
  std::vector<std::int32_t> made_;
};

// A number that no other tokenizer of this process has had.
std::uint64_t next_tokenizer_serial();

}  // namespace trireme
