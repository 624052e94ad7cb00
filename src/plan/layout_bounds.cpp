// Sums of unavoidable costs: the work of each rank, fill and drain of the pipeline, the messages of
// each group of ranks, and the memory of states.
#include "plan/layout_bounds.h"

#include <algorithm>
#include <vector>

#include "config/offload.h"
#include "config/optimizers.h"
#include "config/schedules.h"
#include "model/transformer.h"
#include "parallel/stages.h"

namespace trireme {
namespace {

// A layout with the inputs of its bounds.
struct Cut {
  const Config& config;
  const Layout& layout;
  const std::vector<LayerKind>& kinds;    // of the layers
  const ModelPieces &recomputed, &plain;  // recomputed layers, and others
  StagePlacement placement;
  std::vector<LayerRange> layers;  // by stage
  bool splits = false;
  std::int64_t micro_batches = 1;
  std::int64_t dp = 1, shards = 1;  // ranks that see different samples, and that share states

  const ParallelConfig& parallel() const { return layout.parallel; }

  // Calls use(piece) for each piece of a stage.
  template <class Use>
  void for_each(int stage, const Use& use) const {
    if (stage == 0) use(plain.embedding);
    const LayerRange& range = layers[static_cast<std::size_t>(stage)];
    const std::int64_t some = parallel().recompute_layers;
    const std::int64_t last = some > 0 ? range.begin + some : range.end;
    for (std::int64_t layer = range.begin; layer < range.end; ++layer)
      use((layer < last ? recomputed : plain).layers.at(kinds[static_cast<std::size_t>(layer)]));
    if (stage + 1 == placement.stages()) use(plain.head);
  }
};

// Pass durations of a stage for one micro-batch.
struct StageTime {
  double forward = 0, input_grad = 0, weight_grad = 0, host = 0;
  double backward() const { return input_grad + weight_grad; }
  double all() const { return forward + backward(); }
};

StageTime time_of(const Cut& cut, int stage) {
  StageTime time;
  cut.for_each(stage, [&](const ModelPiece& piece) {
    time.forward += piece.seconds[0];
    time.input_grad += piece.seconds[1];
    time.weight_grad += piece.seconds[2];
    time.host += piece.host;
  });
  return time;
}

// Number of parameter elements that a rank computes with.
struct Elements {
  double dense = 0, experts = 0, largest = 0;
};

Elements elements_of(const Cut& cut, int position) {
  Elements sum;
  double embedding = 0;
  bool last = false;
  for (int chunk = 0; chunk < cut.placement.chunks; ++chunk) {
    const int stage = cut.placement.stage(position, chunk);
    cut.for_each(stage, [&](const ModelPiece& piece) {
      const auto dense = static_cast<double>(piece.elements);
      sum.dense += dense;
      sum.experts += static_cast<double>(piece.expert_elements);
      sum.largest = std::max(sum.largest, dense);
      if (&piece == &cut.plain.embedding) embedding = dense;
    });
    last |= stage + 1 == cut.placement.stages();
  }
  // A shared table belongs to both ends; a rank with both ends has it once.
  const ModelConfig& model = cut.config.model;
  if (last && embedding > 0 && (model.tie_embeddings || model.mtp_layers > 0))
    sum.dense -= std::min(embedding, static_cast<double>(cut.plain.head.elements));
  return sum;
}

double element_bytes(const Config& config) {
  return size_of(compute_dtype(config.run.precision));
}

// Bytes of an element's master weight and moments, if they are in memory.
double state_bytes(const Config& config) {
  if (leaves_memory(config, config.offload.optimizer)) return 0;
  const double moment = config.optimizer.moment_dtype == StateType::bf16 ? 2 : 4;
  const double master = element_bytes(config) == 2 ? 4 : 0;
  return master + moment * entry_of(config.optimizer.name).moments;
}

// Lower bound of the first rank's peak micro-batches in flight, in chunks; 1 for schedules not
// covered here.
std::int64_t slots_at_least(const Cut& cut) {
  const std::int64_t m = cut.micro_batches, p = cut.placement.ranks, chunks = cut.placement.chunks;
  if (p == 1) return 1;
  switch (cut.parallel().schedule) {
    case ScheduleKind::gpipe:
      return m;
    case ScheduleKind::one_f_one_b:
    case ScheduleKind::interleaved:
    case ScheduleKind::zb1p:
    case ScheduleKind::zbv:
      return std::min(m, p) * chunks;
    case ScheduleKind::vhalf:
      return std::min(m, p);
  }
  return 1;
}

// A group of ranks with equal spacing that includes rank 0.
RecordedGroup group_of(const char* name, std::int64_t count, std::int64_t apart) {
  RecordedGroup group{name, {}, 0};
  for (std::int64_t i = 0; i < count; ++i) group.ranks.push_back(static_cast<int>(i * apart));
  return group;
}

// Seconds of all that a rank sends for one purpose as a single message: several take longer.
double lane_seconds(const CostModel& costs, const RecordedGroup& group, MessageKind kind,
                    double whole_bytes) {
  const auto ranks = static_cast<double>(group.ranks.size());
  if (ranks < 2 || whole_bytes <= 0) return 0;
  RecordedWork work{.kind = RecordedWork::Kind::message, .message = kind};
  work.bytes = whole_bytes * (ranks - 1) / ranks * (kind == MessageKind::all_reduce ? 2 : 1);
  return costs.message(work, group);
}

// Seconds of a message over the fastest link between pipeline neighbors.
double send_seconds(const CostModel& costs, const Cut& cut, int ranks) {
  const int apart = ranks / cut.placement.ranks;
  double least = 0;
  for (int p = 0; p + 1 < cut.placement.ranks; ++p) {
    const RecordedGroup group{"pipeline", {p * apart, (p + 1) * apart}, 0};
    RecordedWork work{.kind = RecordedWork::Kind::message, .message = MessageKind::send};
    work.peer = 1;
    work.bytes = static_cast<double>(cut.plain.boundary);
    const double seconds = costs.message(work, group);
    least = p == 0 ? seconds : std::min(least, seconds);
  }
  return least;
}

// Work of a rank common to all its layers: messages for gradients and parameters, and the
// optimizer.
struct SharedWork {
  double at_the_end = 0;  // gradients, after the last backward pass starts
  double all_along = 0;   // on the busiest of its queues
  double after_sums = 0;  // the optimizer, or publishing of parameters
};

SharedWork shared_work(const CostModel& costs, const Cut& cut, int position) {
  const ParallelConfig& p = cut.parallel();
  const Elements elements = elements_of(cut, position);
  const double e = elements.dense,
               gradient = cut.config.run.gradient_dtype == StateType::bf16 ? 2 : 4;
  const double compute = element_bytes(cut.config), m = static_cast<double>(cut.micro_batches);
  const RecordedGroup shard = group_of("shard", p.zero > 0 ? cut.shards : 1, p.tp);
  const RecordedGroup copies = group_of("replicate", p.zero > 0 ? p.dp_replicate : cut.shards,
                                        p.zero > 0 ? p.tp * cut.shards : p.tp);
  const double owned = e / static_cast<double>(shard.ranks.size());
  SharedWork work;
  const double reduce = lane_seconds(costs, shard, MessageKind::reduce_scatter, gradient * e);
  if (p.zero >= 2) {
    work.all_along = m * lane_seconds(costs, shard, MessageKind::reduce_scatter, 4 * e);
  } else {
    work.at_the_end =
        reduce + lane_seconds(costs, copies, MessageKind::all_reduce, gradient * owned);
  }
  const double optimizer =
      2 * state_bytes(cut.config) * owned / costs.machine().memory_rate / costs.efficiency();
  const RecordedGroup gather = group_of("gather", p.zero > 0 ? cut.shards : 1, p.tp);
  if (p.zero == 3) {
    // Gathered twice, except what the two windows still hold when the direction reverses.
    const double gathered = std::max(0.0, 2 * e - 4 * elements.largest);
    work.all_along =
        std::max(work.all_along,
                 m * lane_seconds(costs, gather, MessageKind::all_gather, compute * gathered));
    work.after_sums = optimizer;
  } else {
    work.after_sums =
        std::max(optimizer, lane_seconds(costs, gather, MessageKind::all_gather, compute * e));
  }
  return work;
}

}  // namespace

const ModelPieces& LayoutBounds::pieces(const Layout& layout, Recompute recompute) {
  const ParallelConfig& p = layout.parallel;
  const bool splits = p.pp > 1 && splits_backward(p.schedule);
  Layout other = layout;
  other.parallel.recompute = recompute;
  const Key key = {p.tp,      p.cp,  p.ep, layout.micro_batch_size, p.zero < 2 ? 0 : p.zero,
                   recompute, splits};
  const auto known = pieces_.find(key);
  if (known != pieces_.end()) return known->second;
  return pieces_.emplace(key, record_pieces(config_, other, splits, machine_.target, costs_))
      .first->second;
}

namespace {

Cut cut_of(const Config& config, const Layout& layout, int ranks,
           const std::vector<LayerKind>& kinds, const ModelPieces& recomputed,
           const ModelPieces& plain) {
  const ParallelConfig& p = layout.parallel;
  Cut cut{config, layout, kinds, recomputed, plain, {}, {}};
  cut.placement = {static_cast<int>(p.pp), static_cast<int>(stages_per_rank(p)),
                   p.pp > 1 && entry_of(p.schedule).chunks == ChunkRule::folded};
  cut.layers = assign_layers(config.model.num_layers, cut.placement, p.stage_layers);
  cut.splits = p.pp > 1 && splits_backward(p.schedule);
  cut.micro_batches = micro_batches_of(config, layout, ranks);
  cut.dp = data_parallel_size(p, ranks);
  cut.shards = cut.dp / p.dp_replicate * p.cp;
  return cut;
}

}  // namespace

std::int64_t LayoutBounds::memory(const Layout& layout) {
  const ParallelConfig& p = layout.parallel;
  const Cut cut = cut_of(config_, layout, ranks_, kinds_, pieces(layout, p.recompute),
                         pieces(layout, p.recompute_layers > 0 ? Recompute::none : p.recompute));
  const double weight = element_bytes(config_), state = state_bytes(config_),
               gradient = config_.run.gradient_dtype == StateType::bf16 ? 2 : std::max(4.0, weight);
  const double kept = leaves_memory(config_, config_.offload.parameters) ? 0 : weight;
  const auto of = [&](double elements, double shares) {
    return elements * (kept / (p.zero >= 3 ? shares : 1) + gradient / (p.zero >= 2 ? shares : 1) +
                       state / (p.zero >= 1 ? shares : 1));
  };
  const Elements elements = elements_of(cut, 0);
  const auto shares = static_cast<double>(cut.shards);
  const double expert_shares =
      std::max(1.0, shares * static_cast<double>(p.tp) / static_cast<double>(p.ep * p.expert_tp));
  std::int64_t slot = 0;
  // Stored in files, on the host or on other ranks, in part or in full.
  const bool elsewhere = leaves_memory(config_, config_.offload.activations);
  const std::int64_t boundary =
      elsewhere || p.distribute_saved_activations ? 0 : cut.plain.boundary;
  for (int chunk = 0; chunk < cut.placement.chunks; ++chunk) {
    std::int64_t saved = cut.plain.boundary;
    cut.for_each(cut.placement.stage(0, chunk), [&](const ModelPiece& piece) {
      saved += (elsewhere ? 0 : piece.saved) + boundary;
    });
    slot = std::max(slot, saved);
  }
  return static_cast<std::int64_t>(of(elements.dense, shares) +
                                   of(elements.experts, expert_shares)) +
         slots_at_least(cut) * slot;
}

double LayoutBounds::seconds(const Layout& layout) {
  const ParallelConfig& p = layout.parallel;
  const Cut cut = cut_of(config_, layout, ranks_, kinds_, pieces(layout, p.recompute),
                         pieces(layout, p.recompute_layers > 0 ? Recompute::none : p.recompute));
  const auto m = static_cast<double>(cut.micro_batches);
  const double send = cut.placement.ranks > 1 ? send_seconds(*costs_, cut, ranks_) : 0;
  std::vector<StageTime> stages;
  for (int stage = 0; stage < cut.placement.stages(); ++stage)
    stages.push_back(time_of(cut, stage));
  double fill = 0, drain = 0;  // until the first micro-batch arrives; after the last leaves
  double passes = 0, others = 0, after = 0;
  SharedWork shared;
  Elements of_shared{-1, -1, -1};
  for (int rank = 0; rank < cut.placement.ranks; ++rank) {
    StageTime own;
    double last_backward = 0;
    for (int chunk = 0; chunk < cut.placement.chunks; ++chunk) {
      const StageTime& stage = stages[static_cast<std::size_t>(cut.placement.stage(rank, chunk))];
      own.forward += stage.forward;
      own.input_grad += stage.input_grad;
      own.weight_grad += stage.weight_grad;
      own.host += stage.host;
      last_backward = std::max(last_backward, stage.backward());
    }
    const Elements elements = elements_of(cut, rank);
    if (elements.dense != of_shared.dense || elements.largest != of_shared.largest)
      shared = shared_work(*costs_, cut, rank);
    of_shared = elements;
    const double end = fill + m * own.all();
    passes = std::max(passes, cut.splits
                                  ? std::max(end, fill + m * (own.forward + own.input_grad) + drain)
                                  : end + drain);
    // With several chunks, gradients of one may be reduced long before.
    if (cut.placement.chunks == 1 && !cut.splits)
      passes = std::max(passes, end - last_backward + shared.at_the_end);
    others = std::max({others, m * own.host, shared.all_along});
    after = std::max(after, shared.after_sums);
    const StageTime& first = stages[static_cast<std::size_t>(rank)];
    fill += first.forward + send;
    drain += (cut.splits ? first.input_grad : first.backward()) + send;
  }
  return std::max(passes, others) + after;
}

}  // namespace trireme
