// Three ways to apply merges: keys of which the least is kept by blocks for short sequences, lists
// per rank for long ones, and a plain search where the tokens of a vocabulary are taken apart.
#include "tokenizer/bpe/bpe.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace trireme {

bool MergeTable::add(std::int32_t left, std::int32_t right, Merge merge) {
  rank_limit_ = std::max(rank_limit_, std::size_t{merge.rank} + 1);
  if (is_small(left, right)) {
    if (small_.empty()) small_.resize(std::size_t{kSmall} * kSmall, {kNoRank, -1});
    Merge& known = small_[small_index(left, right)];
    if (known.rank != kNoRank) return false;
    known = merge;
    ++small_count_;
    return true;
  }
  if (2 * (size_ + 1) > slots_.size()) grow();
  const std::uint64_t pair = key(left, right);
  if (!insert({pair, merge})) return false;
  ++size_;
  return true;
}

void MergeTable::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  mask_ = slots_.size() - 1;
  filter_.assign(slots_.size() / 16, 0);
  for (const Slot& slot : old) {
    if (slot.pair != kEmpty) insert(slot);
  }
}

bool MergeTable::insert(const Slot& slot) {
  const std::uint64_t hash = hash_of(slot.pair);
  std::size_t i = home(hash);
  for (; slots_[i].pair != kEmpty; i = (i + 1) & mask_) {
    if (slots_[i].pair == slot.pair) return false;
  }
  slots_[i] = slot;
  filter_[filter_bit(hash) / 64] |= std::uint64_t{1} << filter_bit(hash) % 64;
  return true;
}

namespace {

// Short sequences. Each token keeps its first position; where it may merge with the next one, that
// position has a key of rank and position, so the least key is the next merge. The least of each
// block of positions is kept, so that a merge compares few keys, and without branches.
class ShortMerger {
 public:
  static constexpr std::size_t kMost = 256;
  static constexpr std::size_t kRankLimit = std::size_t{1} << 23;

  ShortMerger(const MergeTable& merges, std::int32_t* ids, std::size_t count)
      : merges_(merges), ids_(ids), count_(count), blocks_((count + kBlock - 1) / kBlock) {
    for (std::size_t at = 0; at < count; ++at) {
      next_[at] = static_cast<std::uint16_t>(at + 1);
      previous_[at] = static_cast<std::uint16_t>(at - 1);
      look_at(at);
    }
    std::fill(keys_ + count, keys_ + blocks_ * kBlock, kNone);
    for (std::size_t block = 0; block < blocks_; ++block) update(block * kBlock);
    std::fill(least_ + blocks_, least_ + kBlock, kNone);
  }

  std::size_t run() {
    for (std::int32_t key = least(least_); key != kNone; key = least(least_)) {
      merge_at(static_cast<std::size_t>(key) % kMost);
    }
    std::size_t out = 0;
    for (std::size_t at = 0; at < count_; at = next_[at]) ids_[out++] = ids_[at];
    return out;
  }

 private:
  static constexpr std::size_t kBlock = 16;
  static constexpr std::int32_t kNone = 0x7FFFFFFF;

  static std::int32_t least(const std::int32_t* keys) {
    std::int32_t four[4] = {keys[0], keys[1], keys[2], keys[3]};
    for (std::size_t i = 4; i < kBlock; ++i) four[i % 4] = std::min(four[i % 4], keys[i]);
    return std::min(std::min(four[0], four[1]), std::min(four[2], four[3]));
  }
  void update(std::size_t at) { least_[at / kBlock] = least(keys_ + at / kBlock * kBlock); }

  void look_at(std::size_t at) {
    keys_[at] = kNone;
    if (at + 1 >= count_ || next_[at] >= count_) return;
    const Merge merge = merges_.find(ids_[at], ids_[next_[at]]);
    if (merge.rank == MergeTable::kNoRank) return;
    merged_[at] = merge.id;
    keys_[at] = static_cast<std::int32_t>(merge.rank * kMost + at);
  }

  void merge_at(std::size_t at) {
    const std::size_t gone = next_[at], after = next_[gone];
    ids_[at] = merged_[at];
    keys_[gone] = kNone;
    next_[at] = static_cast<std::uint16_t>(after);
    if (after < count_) previous_[after] = static_cast<std::uint16_t>(at);
    if (after < count_) merges_.prefetch(ids_[at], ids_[after]);
    if (at > 0) merges_.prefetch(ids_[previous_[at]], ids_[at]);
    look_at(at);
    update(gone);
    update(at);
    if (at == 0) return;
    look_at(previous_[at]);
    update(previous_[at]);
  }

  const MergeTable& merges_;
  std::int32_t* ids_;
  std::size_t count_, blocks_;
  std::int32_t keys_[kMost], merged_[kMost], least_[kBlock];
  std::uint16_t next_[kMost], previous_[kMost];
};
static_assert(ShortMerger::kMost * ShortMerger::kRankLimit == std::size_t{1} << 31);

// merge[i] is what ids[i], ids[i+1] may become; the smallest rank is found by looking at all.
std::size_t apply_by_search(const MergeTable& merges, std::int32_t* ids, Merge* merge,
                            std::size_t count, std::size_t least) {
  for (std::size_t i = 0; i + 1 < count; ++i) merge[i] = merges.find(ids[i], ids[i + 1]);
  while (count > least) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (merge[i].rank < merge[best].rank) best = i;
    }
    if (merge[best].rank == MergeTable::kNoRank) break;
    ids[best] = merge[best].id;
    --count;
    std::copy(ids + best + 2, ids + count + 1, ids + best + 1);
    if (best + 1 < count) {
      std::copy(merge + best + 2, merge + count, merge + best + 1);
      merge[best] = merges.find(ids[best], ids[best + 1]);
    }
    if (best > 0) merge[best - 1] = merges.find(ids[best - 1], ids[best]);
  }
  return count;
}

// Long sequences: tokens are a doubly linked list over their first positions, and for each rank
// there is a doubly linked list of the positions where a merge of that rank is possible. Ranks are
// few and mostly rise, so to walk over their lists costs less than a heap.
class LongMerger {
 public:
  // The lists of a thread are kept: all are empty after each run.
  static LongMerger& of_this_thread() {
    thread_local LongMerger merger;
    return merger;
  }

  std::size_t run(const MergeTable& merges, std::int32_t* ids, std::size_t count) {
    merges_ = &merges;
    ids_ = ids;
    count_ = static_cast<std::uint32_t>(count);
    tokens_.resize(count);
    if (first_.size() < merges.rank_limit()) first_.resize(merges.rank_limit(), kNone);
    // One word at least: there may be no merges at all.
    filled_.resize(std::max(filled_.size(), merges.rank_limit() / 64 + 1));
    for (std::uint32_t at = 0; at < count_; ++at) {
      tokens_[at] = {.previous = at - 1, .next = at + 1};
    }
    // From the right, so that each list begins with its leftmost position.
    for (std::uint32_t at = count_; at-- > 0;) look_at(at);
    rank_ = 0;
    while (next_rank()) merge_all_of_rank();
    const std::size_t left = gather();
    if (tokens_.size() > kKeep) std::vector<Token>().swap(tokens_);
    return left;
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  static constexpr std::size_t kKeep = 1 << 20;  // tokens; the memory of a longer text is freed

  struct Token {
    std::uint32_t previous;
    std::uint32_t next;                    // count_: none
    Merge merge{MergeTable::kNoRank, -1};  // of this token and the next
    std::uint32_t earlier = kNone;         // in the list of the rank
    std::uint32_t later = kNone;
  };

  // Finds the smallest rank from rank_ on that has positions.
  bool next_rank() {
    std::size_t word = rank_ / 64;
    std::uint64_t bits = filled_[word] & ~std::uint64_t{0} << rank_ % 64;
    while (bits == 0) {
      if (++word == filled_.size()) return false;
      bits = filled_[word];
    }
    rank_ =
        static_cast<std::uint32_t>(64 * word) + static_cast<std::uint32_t>(std::countr_zero(bits));
    return true;
  }

  // Leftmost first. A merge that makes one of a lower rank possible lets that go first.
  void merge_all_of_rank() {
    const std::uint32_t rank = rank_;
    positions_.clear();
    for (std::uint32_t at = first_[rank]; at != kNone; at = tokens_[at].later) {
      positions_.push_back(at);
    }
    if (!std::is_sorted(positions_.begin(), positions_.end())) {
      std::sort(positions_.begin(), positions_.end());
    }
    for (std::uint32_t at : positions_) {
      while (tokens_[at].merge.rank == rank) {
        merge_at(at);
        if (rank_ < rank) return;
        // With different pairs of equal rank, it may have made one possible further left.
        const std::uint32_t previous = at > 0 ? tokens_[at].previous : at;
        if (tokens_[previous].merge.rank == rank) at = previous;
      }
    }
  }

  void merge_at(std::uint32_t at) {
    const std::uint32_t gone = tokens_[at].next;
    const std::int32_t merged = tokens_[at].merge.id;
    forget(gone);
    forget(at);
    ids_[at] = merged;
    tokens_[at].next = tokens_[gone].next;
    if (tokens_[at].next < count_) tokens_[tokens_[at].next].previous = at;
    look_at(at);
    if (at > 0) {
      forget(tokens_[at].previous);
      look_at(tokens_[at].previous);
    }
  }

  // Looks up the merge of a token and the next, and enters it into the list of its rank.
  void look_at(std::uint32_t at) {
    Token& token = tokens_[at];
    if (token.next >= count_) return;
    token.merge = merges_->find(ids_[at], ids_[token.next]);
    const std::uint32_t rank = token.merge.rank;
    if (rank == MergeTable::kNoRank) return;
    std::uint32_t& first = first_[rank];
    token.earlier = kNone;
    token.later = first;
    if (first != kNone) tokens_[first].earlier = at;
    first = at;
    filled_[rank / 64] |= std::uint64_t{1} << rank % 64;
    rank_ = std::min(rank_, rank);
  }

  void forget(std::uint32_t at) {
    Token& token = tokens_[at];
    const std::uint32_t rank = token.merge.rank;
    if (rank == MergeTable::kNoRank) return;
    token.merge.rank = MergeTable::kNoRank;
    if (token.later != kNone) tokens_[token.later].earlier = token.earlier;
    if (token.earlier != kNone) {
      tokens_[token.earlier].later = token.later;
    } else {
      first_[rank] = token.later;
      if (token.later == kNone) filled_[rank / 64] &= ~(std::uint64_t{1} << rank % 64);
    }
  }

  std::size_t gather() {
    std::size_t out = 0;
    for (std::uint32_t at = 0; at < count_; at = tokens_[at].next) ids_[out++] = ids_[at];
    return out;
  }

  const MergeTable* merges_ = nullptr;
  std::int32_t* ids_ = nullptr;
  std::uint32_t count_ = 0;
  std::uint32_t rank_ = 0;  // no lower rank has positions
  std::vector<Token> tokens_;
  std::vector<std::uint32_t> first_;      // by rank: a position, or kNone
  std::vector<std::uint64_t> filled_;     // one bit per rank: whether it has positions
  std::vector<std::uint32_t> positions_;  // of the rank that is being merged
};

}  // namespace

std::size_t apply_merges(const MergeTable& merges, std::int32_t* ids, std::size_t count) {
  if (count < 2) return count;
  if (count <= ShortMerger::kMost && merges.rank_limit() < ShortMerger::kRankLimit) {
    return ShortMerger(merges, ids, count).run();
  }
  if (count >= 0xFFFFFFFF) {
    fail_input("a text of {} bytes has no place where it could be split; 4 GiB is the limit",
               count);
  }
  return LongMerger::of_this_thread().run(merges, ids, count);
}

std::size_t apply_merges_down_to(const MergeTable& merges, std::int32_t* ids, std::size_t count,
                                 std::size_t least) {
  std::vector<Merge> merge(count);
  return apply_by_search(merges, ids, merge.data(), count, least);
}

}  // namespace trireme
