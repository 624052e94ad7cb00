// Fixed-order reductions: each part is reduced by one rank, in rank order.
//
// Large reductions are split into one part per rank (reduce_scatter); all_reduce then gathers the
// parts. A small all_reduce takes one step: each rank sends all its data to all others and reduces
// everything itself. The order per element, and so the bits, are the same.
#include <algorithm>
#include <bit>
#include <memory>

#include "base/error.h"
#include "comm/collective.h"
#include "comm/reduce.h"

namespace trireme {
namespace {

constexpr std::int64_t segment_bytes = 256 << 10;  // elements are reduced in segments of this size
constexpr std::size_t max_slots = 8;               // prefetched segments
constexpr std::int64_t small_bytes = 16 << 10;     // all_reduce in one step up to this size
constexpr int small_group = 16;                    // ... and this many ranks
constexpr int steps_per_advance = 8;               // bounds the duration of an advance

// A range of elements.
struct Part {
  std::int64_t begin;
  std::int64_t count;
};

// Receives one part from all other ranks and reduces it into `dst` in rank order; sends
// each other rank its part.
class PartReduction {
 public:
  // Rank k reduces parts[k] of `src`; `dst` gets parts[rank]. With `hold_back`, `dst` overlaps the
  // data to send, so it is written after all sends; it then fits in one segment.
  PartReduction(const GroupState& group, const void* src, void* dst, std::vector<Part> parts,
                DType dtype, Reduction reduction, bool hold_back)
      : group_(group),
        kernels_(reduce_kernels(dtype, reduction)),
        element_(size_of(dtype)),
        src_(static_cast<const char*>(src)),
        dst_(static_cast<char*>(dst)),
        parts_(std::move(parts)),
        hold_back_(hold_back),
        is_tree_(reduction == Reduction::tree) {
    TRIREME_CHECK(!is_tree_ || dtype == DType::f32 || dtype == DType::f64);
  }

  bool advance(Wire& wire, int tag) {
    if (!started_) start();
    bool moved = sends_.advance(wire, group_.context, tag);
    // A slot may receive again once its contents have been reduced.
    moved |= receives_.advance(wire, group_.context, tag, reduced_ + slots_);
    for (int i = 0; i < steps_per_advance && step(); ++i) moved = true;
    return moved;
  }

  bool done() const { return started_ && segment_ == segments_.size() && sends_.done(); }
  std::int64_t sent_bytes() const { return sends_.bytes(); }

 private:
  // Buffers are allocated only while the operation runs: queued operations cost nothing.
  void start() {
    started_ = true;
    plan_sends();
    plan_receives(parts_[group_.rank].count);
    TRIREME_CHECK(!hold_back_ || segments_.size() <= 1);
  }

  void plan_sends() {
    const int n = group_.size();
    const std::int64_t segment = segment_bytes / element_;
    std::int64_t longest = 0;
    for (const Part& part : parts_) longest = std::max(longest, part.count);
    for (std::int64_t at = 0; at < longest; at += segment) {
      for (int step = 1; step < n; ++step) {
        const int peer = (group_.rank + step) % n;
        const std::int64_t count = std::min(segment, parts_[peer].count - at);
        if (count <= 0) continue;
        const char* data = src_ + (parts_[peer].begin + at) * element_;
        sends_.add(const_cast<char*>(data), count * element_, peer);
      }
    }
  }

  void plan_receives(std::int64_t count) {
    const int n = group_.size();
    const std::int64_t segment = segment_bytes / element_;
    const std::int64_t widest = std::min(segment, count);
    slots_ = std::min<std::size_t>(max_slots, n - 1);
    slot_bytes_ = widest * element_;
    staging_ = std::make_unique_for_overwrite<char[]>(slots_ * slot_bytes_);
    accumulator_bytes_ = widest * kernels_.accumulator_bytes;
    // For a tree, keeps the sum of each complete subtree to the left of the next rank.
    const int subtrees = is_tree_ ? std::bit_width(static_cast<unsigned>(n)) : 1;
    accumulators_ = std::make_unique_for_overwrite<char[]>(subtrees * accumulator_bytes_);
    int message = 0;
    for (std::int64_t at = 0; at < count; at += segment) {
      segments_.push_back({at, std::min(segment, count - at)});
      for (int peer = 0; peer < n; ++peer) {
        if (peer == group_.rank) continue;
        char* slot = staging_.get() + message++ % slots_ * slot_bytes_;
        receives_.add(slot, segments_.back().count * element_, peer);
      }
    }
  }

  // Reduces one rank's contribution in, or stores a segment with all of them. Returns false if the
  // next input has not arrived.
  bool step() {
    if (segment_ == segments_.size()) return false;
    const Part& part = segments_[segment_];
    if (peer_ == group_.size()) {
      if (hold_back_ && !sends_.done()) return false;
      while (kept_ > 1) join(part.count);
      kernels_.store(dst_ + part.begin * element_, accumulators_.get(), part.count);
      peer_ = kept_ = 0;
      if (++segment_ == segments_.size()) free_buffers();
      return true;
    }
    const char* data = src_ + (parts_[group_.rank].begin + part.begin) * element_;
    if (peer_ != group_.rank) {
      if (reduced_ == receives_.completed()) return false;
      data = staging_.get() + reduced_++ % slots_ * slot_bytes_;
    }
    take_in(data, part.count);
    ++peer_;
    return true;
  }

  void take_in(const char* data, std::int64_t count) {
    if (!is_tree_ && kept_ == 1) return kernels_.combine(accumulators_.get(), data, count);
    kernels_.load(accumulators_.get() + kept_++ * accumulator_bytes_, data, count);
    if (!is_tree_) return;
    for (int complete = peer_; complete % 2 == 1; complete /= 2) join(count);
  }

  // Merges the last two kept sums, which have the parts' type.
  void join(std::int64_t count) {
    --kept_;
    char* const right = accumulators_.get() + kept_ * accumulator_bytes_;
    kernels_.combine(right - accumulator_bytes_, right, count);
  }

  void free_buffers() {
    staging_.reset();
    accumulators_.reset();
  }

  const GroupState& group_;
  const ReduceKernels& kernels_;
  int element_;
  const char* src_;
  char* dst_;
  std::vector<Part> parts_;
  bool hold_back_, is_tree_;
  bool started_ = false;
  std::vector<Part> segments_;  // of this rank's part
  std::unique_ptr<char[]> staging_, accumulators_;
  std::int64_t accumulator_bytes_ = 0;
  int kept_ = 0;  // accumulators in use
  std::int64_t slot_bytes_ = 0;
  std::size_t slots_ = 0;
  std::size_t reduced_ = 0;  // number of consumed messages
  std::size_t segment_ = 0;  // the segment being reduced ...
  int peer_ = 0;             // ... and the rank whose contribution is next
  MessageStream sends_{true};
  MessageStream receives_{false};
};

class ReduceScatter final : public Collective {
 public:
  ReduceScatter(GroupState& group, Label label, const void* src, void* dst,
                const std::vector<Part>& parts, DType dtype, Reduction reduction, bool hold_back)
      : Collective(group, label), reduction_(group, src, dst, parts, dtype, reduction, hold_back) {}

  Advance advance(Wire& wire) override {
    const bool moved = reduction_.advance(wire, tag());
    return {moved, reduction_.done()};
  }
  std::int64_t sent_bytes() const override { return reduction_.sent_bytes(); }

 private:
  PartReduction reduction_;
};

// Reduces one part per rank in place, then gathers the parts.
class AllReduce final : public Collective {
 public:
  AllReduce(GroupState& group, Label label, char* data, const std::vector<Part>& parts, DType dtype,
            Reduction reduction)
      : Collective(group, label),
        reduction_(group, data, data + parts[group.rank].begin * size_of(dtype), parts, dtype,
                   reduction, false) {
    const int n = group.size();
    const int element = size_of(dtype);
    const Part& own = parts[group.rank];
    for (int step = 1; step < n; ++step) {
      const int to = (group.rank + step) % n;
      const int from = (group.rank - step + n) % n;
      // For sums shorter than the group, most ranks reduce nothing and hence send nothing.
      if (own.count > 0) sends_.add(data + own.begin * element, own.count * element, to);
      if (parts[from].count > 0)
        receives_.add(data + parts[from].begin * element, parts[from].count * element, from);
    }
  }

  Advance advance(Wire& wire) override {
    bool moved = false;
    if (!reduction_.done()) moved = reduction_.advance(wire, tag());
    if (!reduction_.done()) return {moved, false};
    moved |= receives_.advance(wire, group().context, tag());
    moved |= sends_.advance(wire, group().context, tag());
    return {moved, receives_.done() && sends_.done()};
  }
  std::int64_t sent_bytes() const override { return reduction_.sent_bytes() + sends_.bytes(); }

 private:
  PartReduction reduction_;
  MessageStream sends_{true};
  MessageStream receives_{false};
};

// One step: every rank sends all its data to all others; more bytes, but half the waits.
bool takes_one_step(double bytes, int ranks) {
  return bytes <= small_bytes && ranks <= small_group;
}

}  // namespace

double all_reduce_traffic(double bytes, int ranks) {
  return takes_one_step(bytes, ranks) ? (ranks - 1) * bytes : 2 * scatter_traffic(bytes, ranks);
}

double scatter_traffic(double bytes, int ranks) {
  return bytes * (ranks - 1) / ranks;
}

std::unique_ptr<Operation> make_all_reduce(GroupState& group, Label label, void* data,
                                           std::int64_t count, DType dtype, Reduction reduction) {
  const int n = group.size();
  if (takes_one_step(static_cast<double>(count * size_of(dtype)), n)) {
    return std::make_unique<ReduceScatter>(
        group, label, data, data, std::vector<Part>(n, Part{0, count}), dtype, reduction, true);
  }
  const std::int64_t longest = (count + n - 1) / n;
  std::vector<Part> parts(n);
  for (int k = 0; k < n; ++k) {
    const std::int64_t begin = std::min(count, k * longest);
    parts[k] = {begin, std::min(count, begin + longest) - begin};
  }
  return std::make_unique<AllReduce>(group, label, static_cast<char*>(data), parts, dtype,
                                     reduction);
}

std::unique_ptr<Operation> make_reduce_scatter(GroupState& group, Label label, const void* src,
                                               void* dst, std::int64_t count, DType dtype,
                                               Reduction reduction) {
  std::vector<Part> parts(group.size());
  for (int k = 0; k < group.size(); ++k) parts[k] = {k * count, count};
  return std::make_unique<ReduceScatter>(group, label, src, dst, parts, dtype, reduction, false);
}

}  // namespace trireme
