// Plans the ranks of a pipeline, each distinct kind once.
#include "plan/layout_memory.h"

#include <algorithm>
#include <vector>

#include "config/batch_sizes.h"
#include "model/layer_kinds.h"
#include "plan/host_memory.h"
#include "plan/recorded_rank.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

// Everything that determines the memory of a pipeline position, except its buffers.
struct PositionKind {
  bool first = false, last = false;
  std::vector<std::vector<LayerKind>> layers;  // by chunk

  bool operator==(const PositionKind&) const = default;
};

struct Planned {
  PositionKind kind;
  PipelineBuffers buffers;
  std::int64_t on_host = 0;
};

PositionKind kind_of(const std::vector<LayerKind>& kinds, const StagePlacement& placement,
                     const std::vector<LayerRange>& layers, int position) {
  PositionKind kind;
  for (int chunk = 0; chunk < placement.chunks; ++chunk) {
    const int stage = placement.stage(position, chunk);
    kind.first |= stage == 0;
    kind.last |= stage + 1 == placement.stages();
    const LayerRange& range = layers[static_cast<std::size_t>(stage)];
    kind.layers.emplace_back(kinds.begin() + range.begin, kinds.begin() + range.end);
  }
  return kind;
}

// The ends of a pipeline differ from the middle, and early positions need the most memory.
std::vector<int> in_order(int positions) {
  std::vector<int> order = {0};
  if (positions > 1) order.push_back(positions - 1);
  for (int p = 1; p + 1 < positions; ++p) order.push_back(p);
  return order;
}

}  // namespace

LayoutMemory layout_memory(const Config& config, const RankSet& set, const Target& target,
                           std::int64_t limit, std::shared_ptr<PlannedSchedules> schedules) {
  if (!schedules) schedules = std::make_shared<PlannedSchedules>();
  const int ranks = set.ranks, pp = static_cast<int>(config.parallel.pp);
  const std::int64_t micro_batches =
      global_batch_size(config, ranks) /
      (config.train.micro_batch_size * data_parallel_size(config.parallel, ranks));
  // With a batch size ramp-up, buffers must suffice for several schedules.
  const bool one_schedule = batch_sizes(config, ranks).size() == 1;
  const std::vector<LayerKind> kinds = layer_kinds(config.model, config.fp8);
  const PlannedSchedule* schedule = nullptr;  // owned by `schedules`
  std::vector<Planned> planned;
  std::vector<LayerRange> layers;
  std::vector<std::int64_t> on_host(static_cast<std::size_t>(pp));  // by position
  LayoutMemory memory;
  for (const int position : in_order(pp)) {
    Planned one;
    if (schedule) {
      one = {kind_of(kinds, schedule->schedule.placement, layers, position),
             buffers_of(*schedule, position)};
      const auto stands_for = [&](const Planned& other) {
        return other.kind == one.kind && other.buffers.hold(one.buffers);
      };
      const auto other = std::find_if(planned.begin(), planned.end(), stands_for);
      if (one_schedule && other != planned.end()) {
        on_host[static_cast<std::size_t>(position)] = other->on_host;
        continue;
      }
    }
    RecordedRank rank(config, target, {ranks / pp * position, ranks}, schedules);
    if (!schedule) {
      schedule = &rank.engine.schedule(micro_batches);
      const StagePlacement& placement = schedule->schedule.placement;
      layers = assign_layers(config.model.num_layers, placement, config.parallel.stage_layers);
      one = {kind_of(kinds, placement, layers, position), buffers_of(*schedule, position)};
    }
    const MemoryBesides besides = memory_besides(rank.engine, config, threads_of(target));
    one.on_host = planned_on_host(rank.engine, config).total() + besides.on_host.total();
    on_host[static_cast<std::size_t>(position)] = one.on_host;
    planned.push_back(std::move(one));
    memory.needed = std::max(
        memory.needed, planned_memory(rank.engine, config).total() + besides.on_device.total());
    if (memory.needed > limit) return memory;
  }
  memory.on_host = on_fullest_node(on_host, ranks, set.ranks_per_node);
  return memory;
}

}  // namespace trireme
