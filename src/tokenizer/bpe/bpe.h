// Byte-pair encoding: the table of merges and how they are applied to a sequence of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme {

// Result of merging a pair of neighboring tokens; of several possible merges the lowest rank is
// applied first.
struct Merge {
  std::uint32_t rank;
  std::int32_t id;
};

class MergeTable {
 public:
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

  // Adds a merge; false if the pair has one already (which stays).
  bool add(std::int32_t left, std::int32_t right, Merge merge);

  // The merge of a pair, or one of rank kNoRank.
  Merge find(std::int32_t left, std::int32_t right) const {
    if (is_small(left, right)) {
      return small_.empty() ? Merge{kNoRank, -1} : small_[small_index(left, right)];
    }
    const std::uint64_t pair = key(left, right), hash = hash_of(pair);
    if ((filter_[filter_bit(hash) / 64] >> filter_bit(hash) % 64 & 1) == 0) return {kNoRank, -1};
    for (std::size_t i = home(hash);; i = (i + 1) & mask_) {
      if (slots_[i].pair == pair || slots_[i].pair == kEmpty) return slots_[i].merge;
    }
  }

  // Asks the processor to load what find() reads.
  void prefetch(std::int32_t left, std::int32_t right) const {
    __builtin_prefetch(&slots_[home(hash_of(key(left, right)))]);
  }

  std::size_t size() const { return size_ + small_count_; }
  // One more than the largest rank.
  std::size_t rank_limit() const { return rank_limit_; }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t pair = kEmpty;
    Merge merge{kNoRank, -1};
  };
  // Pairs of small ids, which in byte-level vocabularies are the bytes, have a table of their own:
  // every merging begins with them.
  static constexpr std::int32_t kSmall = 256;
  static bool is_small(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint32_t>(left | right) < kSmall;
  }
  static std::size_t small_index(std::int32_t left, std::int32_t right) {
    return static_cast<std::size_t>(left * kSmall + right);
  }
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
  }
  bool insert(const Slot& slot);
  void grow();
  static std::uint64_t hash_of(std::uint64_t pair) { return pair * 0x9E3779B97F4A7C15; }
  std::size_t home(std::uint64_t hash) const { return (hash >> 32) & mask_; }
  std::size_t filter_bit(std::uint64_t hash) const { return (hash >> 30) & (4 * mask_ + 3); }

  std::vector<Slot> slots_ = std::vector<Slot>(16);  // open addressing, at most half full
  // Four bits per slot; most pairs of a text have no merge, which one look at this tells.
  std::vector<std::uint64_t> filter_ = std::vector<std::uint64_t>(1);
  std::size_t mask_ = 15;
  std::size_t size_ = 0;
  std::vector<Merge> small_;  // empty: there are none
  std::size_t small_count_ = 0;
  std::size_t rank_limit_ = 0;
};

// Applies merges to ids[0, count) in place, always the one of the lowest rank and of those the
// leftmost, until none is left; returns the new count. Time: about count * log(count).
// Errors: 2^32 tokens or more.
std::size_t apply_merges(const MergeTable& merges, std::int32_t* ids, std::size_t count);

// The same, but stops at `least` tokens. Time: count^2.
std::size_t apply_merges_down_to(const MergeTable& merges, std::int32_t* ids, std::size_t count,
                                 std::size_t least);

}  // namespace trireme
