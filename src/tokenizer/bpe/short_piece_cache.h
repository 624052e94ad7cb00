// Caches the ids of pieces of at most 8 bytes: 16 bytes per piece, four pieces per cache line.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace trireme {

class ShortPieceCache {
 public:
  static constexpr std::size_t kMaxLength = 8;  // bytes
  static constexpr std::size_t kMaxIds = 3;

  // A piece and its ids.
  class Entry {
   public:
    Entry() = default;
    Entry(std::uint64_t bytes, std::size_t length, std::span<const std::int32_t> ids)
        : bytes_(bytes), rest_(length | ids.size() << kLengthBits) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        rest_ |= static_cast<std::uint64_t>(ids[i]) << (kFirstId + i * kIdBits);
      }
    }

    std::uint64_t bytes() const { return bytes_; }
    std::size_t length() const { return rest_ & 15; }
    std::size_t count() const { return rest_ >> kLengthBits & 3; }
    // Writes kMaxIds ids, so that no branch depends on their number; those after the first count()
    // are zero.
    void write(std::int32_t* ids) const {
      for (std::size_t i = 0; i < kMaxIds; ++i) {
        ids[i] = static_cast<std::int32_t>(rest_ >> (kFirstId + i * kIdBits) & kIdMask);
      }
    }

   private:
    std::uint64_t bytes_ = 0;  // zeros after the last
    std::uint64_t rest_ = 0;   // from the lowest bit: length, number of ids, ids
  };

  // The bytes of a piece of at most kMaxLength. `readable_end` bounds what may be read, which is
  // more than the piece.
  static std::uint64_t bytes_of(const char* piece, std::size_t length, const char* readable_end) {
    std::uint64_t bytes = 0;
    if (readable_end - piece >= 8) {
      std::memcpy(&bytes, piece, 8);
      return bytes & kMask[length];
    }
    std::memcpy(&bytes, piece, length);
    return bytes;
  }

  // The line in which a piece is cached.
  static std::size_t line_of(std::uint64_t bytes) {
    return (bytes * 0x9E3779B97F4A7C15) >> (64 - kBits);
  }

  void prefetch(std::size_t line) const { __builtin_prefetch(&lines_[line]); }

  // Returns the entry of a piece, or null. Of two pieces that differ only in zero bytes at their
  // ends, only the one cached last is found.
  const Entry* find(std::uint64_t bytes, std::size_t length, std::size_t line) const {
    const Line& entries = lines_[line];
    unsigned equal = 0;
    for (unsigned i = 0; i < entries.size(); ++i) {
      equal |= static_cast<unsigned>(entries[i].bytes() == bytes) << i;
    }
    if (equal == 0) return nullptr;
    const Entry& entry = entries[static_cast<std::size_t>(std::countr_zero(equal))];
    return entry.length() == length ? &entry : nullptr;
  }

  // Whether an entry has room for these ids.
  static bool takes(std::span<const std::int32_t> ids) {
    if (ids.empty() || ids.size() > kMaxIds) return false;
    return std::all_of(ids.begin(), ids.end(),
                       [](std::int32_t id) { return static_cast<std::uint32_t>(id) <= kIdMask; });
  }

  // Caches a piece in place of the one of its line that was cached first.
  void put(const Entry& entry, std::size_t line) {
    Line& entries = lines_[line];
    std::copy_backward(entries.begin(), entries.end() - 1, entries.end());
    entries.front() = entry;
  }

 private:
  static constexpr int kBits = 15;
  static constexpr int kLengthBits = 4, kFirstId = kLengthBits + 2, kIdBits = 19;
  static constexpr std::uint64_t kIdMask = (std::uint64_t{1} << kIdBits) - 1;

  static constexpr std::array<std::uint64_t, kMaxLength + 1> kMask = [] {
    std::array<std::uint64_t, kMaxLength + 1> mask{};
    for (std::size_t length = 1; length <= kMaxLength; ++length) {
      mask[length] = mask[length - 1] << 8 | 0xFF;
    }
    return mask;
  }();

  struct alignas(64) Line : std::array<Entry, 4> {};

  std::vector<Line> lines_ = std::vector<Line>(std::size_t{1} << kBits);
};

}  // namespace trireme
