// Caches the ids of pieces of text, in one cache per thread, so that it needs no locks. Real text
// repeats itself: about 99 of 100 pieces are found here and cost no lookup elsewhere. Pieces that
// are short and have few ids, nine of ten, are cached in 16 bytes each, the next in 32.
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
#include "tokenizer/bpe/short_piece_cache.h"

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

  // The ids of a piece of at most PieceKey::kMaxLength bytes that has few.
  struct Entry {
    std::uint64_t low;
    std::uint64_t
        high;  // as in the key, but with the number of ids in the upper half of its last byte
    std::int32_t ids[kMaxIds];

    bool holds(const PieceKey& key) const {
      return ((low ^ key.low) | (high ^ key.high) << 4) == 0;
    }
    std::span<const std::int32_t> known() const { return {ids, high >> 60}; }
    void set(const PieceKey& key, std::span<const std::int32_t> from) {
      low = key.low;
      high = key.high | std::uint64_t{from.size()} << 60;
      std::copy(from.begin(), from.end(), ids);
    }
  };

  // A piece and the place where its ids would be.
  struct Place {
    std::string_view piece;
    std::uint64_t word;  // bytes of a short piece, hash of another one
    std::size_t line;    // of a short piece
  };

  // Finds the place of a piece and asks the processor to load it.
  Place locate(std::string_view piece, const char* readable_end) const {
    Place place{.piece = piece, .word = 0, .line = 0};
    if (piece.size() <= ShortPieceCache::kMaxLength) {
      place.word = ShortPieceCache::bytes_of(piece.data(), piece.size(), readable_end);
      place.line = ShortPieceCache::line_of(place.word);
      short_pieces_.prefetch(place.line);
    } else if (piece.size() <= PieceKey::kMaxLength) {
      place.word = hash_of(PieceKey::of(piece.data(), piece.size(), readable_end));
      __builtin_prefetch(&lines_[place.word >> (64 - kBits)]);
    } else {
      place.word = LongPieceCache::hash_of(piece);
      long_pieces_.prefetch(place.word);
    }
    return place;
  }

  // The entry of a short piece with few ids, or null.
  const ShortPieceCache::Entry* find_short(const Place& place) const {
    if (place.piece.size() > ShortPieceCache::kMaxLength) return nullptr;
    return short_pieces_.find(place.word, place.piece.size(), place.line);
  }

  // Returns the ids of a piece that find_short does not find: cached ones, or those that make(ids)
  // appends to an empty vector, which are then cached. They are valid until the next call.
  template <class Make>
  std::span<const std::int32_t> find_or_make(const Place& place, const char* readable_end,
                                             Make&& make) {
    const std::string_view piece = place.piece;
    const bool fits = piece.size() <= PieceKey::kMaxLength;
    PieceKey key{};
    std::uint64_t hash = place.word;
    if (fits) {
      key = PieceKey::of(piece.data(), piece.size(), readable_end);
      hash = hash_of(key);
      const Line& line = lines_[hash >> (64 - kBits)];
      if (line.recent.holds(key)) return line.recent.known();
      if (line.older.holds(key)) return line.older.known();
    }
    if (const auto known = long_pieces_.find(piece, hash); !known.empty()) return known;
    made_.clear();
    make(made_);
    if (piece.size() <= ShortPieceCache::kMaxLength && ShortPieceCache::takes(made_)) {
      short_pieces_.put({place.word, piece.size(), made_}, place.line);
    } else if (fits && made_.size() <= kMaxIds) {
      Line& line = lines_[hash >> (64 - kBits)];
      line.older = line.recent;
      line.recent.set(key, made_);
    } else {
      long_pieces_.put(piece, hash, made_);
    }
    return made_;
  }

  // The ids of any piece.
  template <class Make>
  std::span<const std::int32_t> ids_of(std::string_view piece, const char* readable_end,
                                       Make&& make) {
    const Place place = locate(piece, readable_end);
    if (const ShortPieceCache::Entry* entry = find_short(place)) {
      entry->write(short_ids_);
      return {short_ids_, entry->count()};
    }
    return find_or_make(place, readable_end, make);
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
  ShortPieceCache short_pieces_;
  std::int32_t short_ids_[ShortPieceCache::kMaxIds];
  std::vector<std::int32_t> made_;
};

// A number that no other tokenizer of this process has had.
std::uint64_t next_tokenizer_serial();

}  // namespace trireme
