// Two ways to apply merges: arrays that are searched for short sequences, a heap for long ones.
#include "tokenizer/bpe.h"

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace trireme {

bool MergeTable::add(std::int32_t left, std::int32_t right, Merge merge) {
  if (2 * (size_ + 1) > slots_.size()) {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.pair == kEmpty) continue;
      std::size_t i = home(slot.pair);
      while (slots_[i].pair != kEmpty) i = (i + 1) & mask_;
      slots_[i] = slot;
    }
  }
  const std::uint64_t pair = key(left, right);
  std::size_t i = home(pair);
  for (; slots_[i].pair != kEmpty; i = (i + 1) & mask_) {
    if (slots_[i].pair == pair) return false;
  }
  slots_[i] = {pair, merge};
  ++size_;
  return true;
}

namespace {

constexpr std::size_t kShort = 96;

// merge[i] is what ids[i], ids[i+1] may become; the smallest rank is found by looking at all.
std::size_t apply_to_short(const MergeTable& merges, std::int32_t* ids, std::size_t count) {
  Merge merge[kShort];
  for (std::size_t i = 0; i + 1 < count; ++i) merge[i] = merges.find(ids[i], ids[i + 1]);
  while (count > 1) {
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

// Tokens as a doubly linked list over their first positions. The heap holds rank and position of
// every possible merge; an entry is stale when the rank at its position has changed since.
class LongMerger {
 public:
  LongMerger(const MergeTable& merges, std::int32_t* ids, std::size_t count)
      : merges_(merges), ids_(ids), count_(count), links_(count) {}

  std::size_t run() {
    heap_.reserve(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      links_[i] = {static_cast<std::uint32_t>(i - 1),
                   static_cast<std::uint32_t>(i + 1),
                   {MergeTable::kNoRank, -1}};
      if (i + 1 == count_) break;
      links_[i].merge = merges_.find(ids_[i], ids_[i + 1]);
      if (links_[i].merge.rank != MergeTable::kNoRank) heap_.push_back(entry(i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>{});
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>{});
      const std::uint64_t top = heap_.back();
      heap_.pop_back();
      const std::size_t at = top & 0xFFFFFFFF;
      if (links_[at].merge.rank == top >> 32) merge_at(at);
    }
    return gather();
  }

 private:
  struct Link {
    std::uint32_t previous;
    std::uint32_t next;  // count_ or more: none
    Merge merge;         // of this token and the next
  };

  std::uint64_t entry(std::size_t at) const {
    return std::uint64_t{links_[at].merge.rank} << 32 | at;
  }

  void merge_at(std::size_t at) {
    const std::size_t gone = links_[at].next;
    ids_[at] = links_[at].merge.id;
    links_[at].next = links_[gone].next;
    links_[gone].merge.rank = MergeTable::kNoRank;
    if (links_[at].next < count_) links_[links_[at].next].previous = static_cast<std::uint32_t>(at);
    look_at(at);
    if (at > 0) look_at(links_[at].previous);
  }

  void look_at(std::size_t at) {
    const std::size_t next = links_[at].next;
    links_[at].merge =
        next < count_ ? merges_.find(ids_[at], ids_[next]) : Merge{MergeTable::kNoRank, -1};
    if (links_[at].merge.rank == MergeTable::kNoRank) return;
    heap_.push_back(entry(at));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>{});
  }

  std::size_t gather() {
    std::size_t out = 0;
    for (std::size_t i = 0; i < count_; i = links_[i].next) ids_[out++] = ids_[i];
    return out;
  }

  const MergeTable& merges_;
  std::int32_t* ids_;
  std::size_t count_;
  std::vector<Link> links_;
  std::vector<std::uint64_t> heap_;
};

}  // namespace

std::size_t apply_merges(const MergeTable& merges, std::int32_t* ids, std::size_t count) {
  if (count < 2) return count;
  if (count <= kShort) return apply_to_short(merges, ids, count);
  if (count >= 0xFFFFFFFF) {
    fail_input("a text of {} bytes has no place where it could be split; 4 GiB is the limit",
               count);
  }
  return LongMerger(merges, ids, count).run();
}

}  // namespace trireme
