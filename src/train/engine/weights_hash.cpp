// Each element is hashed on one rank that owns it; the ranks' sums are added.
#include "train/engine/weights_hash.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "tensors/element_hash.h"
#include "train/checkpoints/slices.h"

namespace trireme {
namespace {

constexpr std::int64_t elements_per_task = std::int64_t{1} << 20;

// Returns the weights among the tensors that this rank saves.
std::vector<SourceSlice> owned_weights(Engine& engine) {
  std::vector<SourceSlice> weights;
  for (int c = 0; c < engine.chunks(); ++c) {
    std::set<std::string> names;
    for (const Parameter& parameter : engine.stage(c).definition().parameters)
      names.insert(parameter.name);
    auto slices = saved_slices(engine.stage(c), engine.optimizer(c),
                               [&](const Parameter& p) { return engine.owns(c, p.spec); });
    for (SourceSlice& slice : slices)
      if (names.contains(slice.name)) weights.push_back(std::move(slice));
  }
  return weights;
}

// Elements [begin, end) of a slice, and the region of the full slice in the tensor.
struct HashTask {
  const SourceSlice* slice;
  std::shared_ptr<const std::vector<Run>> places;
  std::int64_t begin, end;

  std::uint64_t hash() const {
    const std::int64_t size = size_of(slice->dtype);
    const std::uint64_t key = element_key(slice->name);
    std::uint64_t sum = 0;
    slice->access(begin * size, (end - begin) * size, [&](const std::byte* elements) {
      auto run = std::ranges::upper_bound(*places, begin, {},
                                          [](const Run& r) { return r.src + r.count; });
      for (; run != places->end() && run->src < end; ++run) {
        const std::int64_t from = std::max(begin, run->src),
                           to = std::min(end, run->src + run->count);
        sum += element_hash(key, run->dst + from - run->src, slice->dtype,
                            elements + (from - begin) * size, to - from);
      }
    });
    return sum;
  }
};

std::uint64_t own_hash(Engine& engine) {
  const std::vector<SourceSlice> weights = owned_weights(engine);
  std::vector<HashTask> tasks;
  for (const SourceSlice& slice : weights) {
    const auto places = std::make_shared<const std::vector<Run>>(
        overlap(slice.tensor, slice.region, Region::whole(slice.tensor)));
    const std::int64_t count = slice.region.count();
    for (std::int64_t begin = 0; begin < count; begin += elements_per_task)
      tasks.push_back({&slice, places, begin, std::min(count, begin + elements_per_task)});
  }
  std::vector<std::uint64_t> sums(tasks.size());
  ThreadPool::global().run(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t i, int) {
    sums[static_cast<std::size_t>(i)] = tasks[static_cast<std::size_t>(i)].hash();
  });
  return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
}

}  // namespace

std::uint64_t weights_hash(Engine& engine, Transport* transport) {
  const std::uint64_t own = own_hash(engine);
  if (!transport) return own;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(transport->place().size));
  transport->world()
      .all_gather(&own, all.data(), static_cast<std::int64_t>(sizeof own), DType::u8,
                  "hashes of parameters")
      .wait();
  return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
}

}  // namespace trireme
