// Ranks exchange hashes, and texts only for those that differ.
#include "train/watch/corruption_guard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "base/hash.h"
#include "base/thread_pool.h"
#include "train/checkpoints/slices.h"

namespace trireme {
namespace {

constexpr std::int64_t block_bytes = std::int64_t{4} << 20;

// Hashes all slices, block by block, on all threads.
std::uint64_t hash_of(const std::vector<SourceSlice>& slices) {
  struct Block {
    const SourceSlice* slice;
    std::int64_t begin;
  };
  std::vector<Block> blocks;
  for (const SourceSlice& slice : slices)
    for (std::int64_t begin = 0; begin < slice.bytes(); begin += block_bytes)
      blocks.push_back({&slice, begin});
  std::vector<std::uint64_t> hashes(blocks.size());
  ThreadPool::global().run(static_cast<std::int64_t>(blocks.size()), [&](std::int64_t i, int) {
    const auto& [slice, begin] = blocks[static_cast<std::size_t>(i)];
    const std::int64_t bytes = std::min(block_bytes, slice->bytes() - begin);
    slice->access(begin, bytes, [&](const std::byte* data) {
      hashes[static_cast<std::size_t>(i)] = hash64(data, static_cast<std::size_t>(bytes));
    });
  });
  return hash64(hashes.data(), hashes.size() * sizeof(std::uint64_t));
}

// Returns the parameters of a rank in compute precision. Empty with ZeRO 3, where they are gathered
// only temporarily.
std::vector<SourceSlice> computed_with(const Engine& engine,
                                       const std::function<bool(const Parameter&)>& wanted) {
  std::vector<SourceSlice> slices;
  for (int c = 0; c < engine.chunks(); ++c) {
    const Stage& stage = engine.stage(c);
    if (engine.optimizer(c).layout().parameters_in_windows()) continue;
    const DType dtype = stage.definition().compute;
    for (const Parameter& p : stage.definition().parameters) {
      if (!wanted(p)) continue;
      slices.push_back({p.name, dtype, p.spec.shape, Region::whole(p.spec.shape),
                        stage.flat_parameters() + p.offset * size_of(dtype), &stage.device()});
    }
  }
  return slices;
}

std::vector<SourceSlice> owned_by(Engine& engine, bool experts) {
  std::vector<SourceSlice> slices;
  for (int c = 0; c < engine.chunks(); ++c) {
    const auto own = saved_slices(engine.stage(c), engine.optimizer(c),
                                  [&](const Parameter& p) { return p.spec.of_experts == experts; });
    slices.insert(slices.end(), own.begin(), own.end());
  }
  return slices;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace

std::vector<int> ranks_that_differ(std::span<const int> ranks, std::span<const std::uint64_t> all) {
  std::map<std::uint64_t, std::vector<int>> by_hash;
  for (const int rank : ranks) by_hash[all[static_cast<std::size_t>(rank)]].push_back(rank);
  std::vector<int> differ;
  for (const auto& [hash, those] : by_hash)
    if (2 * those.size() <= ranks.size()) differ.insert(differ.end(), those.begin(), those.end());
  std::ranges::sort(differ);
  return differ;
}

std::vector<int> suspects_of(int owner, int other, const Digests& d, bool has_third) {
  if (owner == other || d.owner[0] != d.owner[1]) return {owner};
  if (d.other[0] != d.other[1]) return {other};
  if (has_third && d.third == d.owner[0]) return {other};
  if (has_third && d.third == d.other[0]) return {owner};
  return {std::min(owner, other), std::max(owner, other)};
}

template <class T>
std::vector<T> CorruptionGuard::of_all(const T& own, const char* what) {
  if (!transport_) return {own};
  std::vector<T> all(static_cast<std::size_t>(transport_->place().size));
  transport_->world()
      .all_gather(&own, all.data(), static_cast<std::int64_t>(sizeof(T)), DType::u8, what)
      .wait();
  return all;
}

CorruptionGuard::Finding CorruptionGuard::compare_states() {
  const Mesh& mesh = engine_.mesh();
  const int zero = static_cast<int>(engine_.optimizer().layout().options().zero);
  using Group = std::function<std::vector<int>(int rank)>;
  const auto along = [&](Axes axes) -> Group {
    return [&mesh, axes](int rank) { return mesh.group(rank, axes); };
  };
  struct Common {
    const char* what;
    std::vector<SourceSlice> mine;
    Group ranks;  // that hold the same data
  };
  const auto is_dense = [](const Parameter& p) { return !p.spec.of_experts; };
  const auto is_expert = [](const Parameter& p) { return p.spec.of_experts; };
  const auto is_whole = [&](const Parameter& p) { return is_dense(p) && !p.spec.split; };
  const bool narrow = engine_.optimizer().layout().options().narrow_gradients;
  std::vector<Common> all;
  all.push_back({"weights", computed_with(engine_, is_dense), along(Axes::dp_cp)});
  all.push_back({"optimizer states", owned_by(engine_, false), along(replicate_axes(zero))});
  // bf16 sums are rounded differently on every rank.
  if (!narrow)
    all.push_back({"replicated weights", computed_with(engine_, is_whole), along(Axes::stage)});
  if (mesh.degrees().experts) {
    all.push_back({"weights of experts", computed_with(engine_, is_expert),
                   [&](int rank) { return mesh.expert_dp_group(rank); }});
    all.push_back({"states of experts", owned_by(engine_, true),
                   [&](int rank) { return expert_replicate_group(mesh, rank, zero); }});
  }
  hashed_bytes_ = 0;
  for (const Common& common : all) {
    // Nothing can be compared unless some ranks hold copies of the same data.
    bool several = false;
    for (int rank = 0; rank < mesh.size() && !several; ++rank)
      several = common.ranks(rank).size() > 1;
    if (!several) continue;
    for (const SourceSlice& slice : common.mine) hashed_bytes_ += slice.bytes();
    const std::vector<std::uint64_t> hashes = of_all(hash_of(common.mine), "hashes of states");
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const std::vector<int> group = common.ranks(rank);
      if (group.size() < 2 || group.front() != rank) continue;
      const std::vector<int> differ = ranks_that_differ(group, hashes);
      if (differ.empty()) continue;
      const bool all_differ = differ.size() == group.size();
      return {
          all_differ
              ? fmt::format("{} have {} that must be identical but differ", ranks_text(differ),
                            common.what)
              : fmt::format("the {} of {} differ from those of the {} other ranks, which must be "
                            "identical",
                            common.what, ranks_text(differ), group.size() - differ.size()),
          differ};
    }
  }
  return {};
}

// Returns the rank whose micro-batches `rank` recomputes.
int CorruptionGuard::partner(int rank, int shift) const {
  const Mesh& mesh = engine_.mesh();
  const MeshDegrees& degrees = mesh.degrees();
  const int index = (mesh.dp_index(rank) + shift + 2 * degrees.dp()) % degrees.dp();
  MeshPlace place = mesh.place_of(rank);
  place.replicate = index / degrees.dp_shard;
  place.shard = index % degrees.dp_shard;
  return mesh.rank_of(place);
}

// Ranks of one expert-parallel group must recompute together.
int CorruptionGuard::shift() const {
  const MeshDegrees& d = engine_.mesh().degrees();
  const int sharing = d.tp * d.cp;  // of the samples of a data-parallel rank
  const int unit = std::lcm(d.expert_ranks(), sharing) / sharing;
  return comparable_ && unit < d.dp() ? unit : 0;
}

std::vector<OpHash> CorruptionGuard::hashes_of_passes(const StepInput& input,
                                                      const Batches& batches, int shift) {
  const int rank = transport_ ? transport_->place().rank : 0;
  const int index = engine_.mesh().dp_index(partner(rank, shift));
  PassHashes hashes(device_);
  engine_.observe(
      input, [&](std::int64_t k) { return batches(index, k); }, hashes);
  return hashes.ops();
}

// Receives the hashes of the rank whose micro-batches this one has recomputed.
std::vector<OpHash> CorruptionGuard::list_of_partner(const std::vector<OpHash>& own, int shift) {
  const int rank = transport_ ? transport_->place().rank : 0;
  const int from = partner(rank, shift), to = partner(rank, -shift);
  if (from == rank) return own;
  std::vector<OpHash> theirs(own.size());  // same program, same size
  const auto bytes = static_cast<std::int64_t>(own.size() * sizeof(OpHash));
  // Used for sending only: the elements are not modified.
  void* const mine = const_cast<OpHash*>(own.data());
  const Transfer transfers[] = {
      {Transfer::Direction::send, to, mine, bytes, DType::u8},
      {Transfer::Direction::receive, from, theirs.data(), bytes, DType::u8}};
  transport_->world().exchange(transfers, "hashes of passes").wait();
  return theirs;
}

CorruptionGuard::Finding CorruptionGuard::compute_twice(const StepInput& input,
                                                        const Batches& batches) {
  const int by = shift();
  const auto run = [&](int shift) { return hashes_of_passes(input, batches, shift); };
  const auto digests = [&](const std::vector<OpHash>& ops) {
    return of_all(digest_of(ops), "digests of passes");
  };
  const std::vector<OpHash> mine = run(0), theirs = run(by);
  const auto own = digests(mine), other = digests(theirs);
  const int ranks = engine_.mesh().size();
  bool differ = false;
  for (int r = 0; r < ranks; ++r)
    differ |= own[static_cast<std::size_t>(partner(r, by))] != other[static_cast<std::size_t>(r)];
  if (!differ) return {};

  // Looks for the first difference along the model, since a wrong value affects everything after
  // it.
  const std::vector<OpHash> expected = list_of_partner(mine, by);
  const OpHash none{.order = std::numeric_limits<std::int64_t>::max()};
  const auto firsts = of_all(first_difference(expected, theirs).value_or(none), "what differs");
  const auto first = std::ranges::min_element(firsts, {}, &OpHash::order);
  const int other_rank = static_cast<int>(first - firsts.begin());
  const int owner = partner(other_rank, by);
  const auto own_again = digests(run(0)), other_again = digests(run(by));
  const bool has_third = by > 0 && engine_.mesh().degrees().dp() >= 3 * by;
  const auto third = has_third ? digests(run(2 * by)) : own;
  const auto at = [](const std::vector<std::uint64_t>& all, int rank) {
    return all[static_cast<std::size_t>(rank)];
  };
  const Digests seen{{at(own, owner), at(own_again, owner)},
                     {at(other, other_rank), at(other_again, other_rank)},
                     at(third, partner(other_rank, -by))};
  return {owner == other_rank
              ? fmt::format(
                    "rank {} computed the same micro-batch twice with different bits, first in {}",
                    owner, to_text(*first))
              : fmt::format(
                    "ranks {} and {} computed the same micro-batch with different bits, first in "
                    "{}",
                    owner, other_rank, to_text(*first)),
          suspects_of(owner, other_rank, seen, has_third)};
}

}  // namespace trireme
