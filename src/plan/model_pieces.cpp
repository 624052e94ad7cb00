// Records two micro-batches of a small model, and takes the minimum over identical pieces.
#include "plan/model_pieces.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "plan/recorded_rank.h"
#include "plan/timing/replay.h"

namespace trireme {
namespace {

constexpr int passes = 3;

// Number of leading layers with at least one of each kind, and at least `stages` in total.
std::int64_t few_layers(const std::vector<LayerKind>& kinds, std::int64_t stages) {
  std::set<LayerKind> known;
  std::size_t count = 1;
  for (std::size_t layer = 0; layer < kinds.size(); ++layer)
    if (known.insert(kinds[layer]).second) count = layer + 1;
  return std::max(static_cast<std::int64_t>(count), stages);
}

struct Small {
  Config config;
  int ranks = 1;
};

Small small_model(const Config& config, const Layout& layout, bool splits,
                  const std::vector<LayerKind>& kinds) {
  Small small{with_layout(config, layout)};
  ParallelConfig& p = small.config.parallel;
  p.pp = splits ? 2 : 1;
  p.schedule = splits ? ScheduleKind::zb1p : ScheduleKind::one_f_one_b;
  p.virtual_stages = p.dp_replicate = 1;
  p.recompute_layers = 0;
  p.distribute_saved_activations = false;
  small.config.offload = {};
  if (p.zero < 2) p.zero = 0;
  const std::int64_t layers = few_layers(kinds, p.pp);
  p.stage_layers = splits ? std::vector<std::int64_t>{layers - 1, 1} : std::vector<std::int64_t>{};
  small.config.model.num_layers = layers;
  // The remaining layers keep their kinds.
  std::int64_t& last_in_bf16 = small.config.fp8.last_layers_bf16;
  last_in_bf16 = std::max<std::int64_t>(0, last_in_bf16 - (config.model.num_layers - layers));
  std::int64_t dp = p.zero > 0 ? 2 : 1;
  while (p.tp * p.cp * dp % (p.ep * p.expert_tp) != 0) ++dp;
  small.ranks = static_cast<int>(p.tp * p.cp * dp * p.pp);
  TrainConfig& train = small.config.train;
  train.global_batch_size = 2 * train.micro_batch_size * dp;
  train.rampup_batch_size = {};
  train.batch_size_schedule = {};
  small.config.curriculum = {};
  return small;
}

void keep_shortest(double& seconds, double found, bool known) {
  seconds = known ? std::min(seconds, found) : found;
}

void add_times(const std::map<WorkKey, PieceTime>& times, int segment, ModelPiece& piece) {
  double host = 0;
  for (int pass = 0; pass < passes; ++pass) {
    double seconds = 0, enqueued = 0;
    bool found = false;
    for (const bool first : {false, true}) {
      const auto one = times.find({0, pass, segment, first});
      if (one == times.end()) continue;
      keep_shortest(seconds, one->second.compute, found);
      keep_shortest(enqueued, one->second.host, found);
      found = true;
    }
    keep_shortest(piece.seconds[static_cast<std::size_t>(pass)], seconds, piece.known);
    host += enqueued;
  }
  keep_shortest(piece.host, host, piece.known);
}

}  // namespace

ModelPieces record_pieces(const Config& config, const Layout& layout, bool splits,
                          const Target& target, const CostModel* costs) {
  const std::vector<LayerKind> kinds = layer_kinds(config.model, config.fp8);
  const auto [small, ranks] = small_model(config, layout, splits, kinds);
  const auto schedules = std::make_shared<PlannedSchedules>();
  const int stages = static_cast<int>(small.parallel.pp);
  ModelPieces pieces;
  std::size_t layer = 0;
  for (int position = 0; position < stages; ++position) {
    RecordedRank rank(small, target, {ranks / stages * position, ranks}, schedules);
    std::map<WorkKey, PieceTime> times;
    if (costs) {
      rank.allocate();
      times = times_alone(rank.record_step(2), *costs);
    }
    const Stage& stage = rank.engine.stage();
    const StageDefinition& definition = stage.definition();
    pieces.boundary = stage.boundary_bytes();
    for (int s = 0; s < stage.segments(); ++s) {
      const bool embedding = position == 0 && s == 0,
                 head = position + 1 == stages && s + 1 == stage.segments();
      ModelPiece& piece = embedding ? pieces.embedding
                          : head    ? pieces.head
                                    : pieces.layers[kinds[layer++]];
      add_times(times, s, piece);
      if (piece.known) continue;
      piece.known = true;
      const SegmentInstance& segment = definition.segments[static_cast<std::size_t>(s)];
      piece.saved = stage.segment_plan(segment.segment, true).saved_bytes;
      for (const int p : segment.parameters) {
        const ParameterSpec& spec = definition.parameters[static_cast<std::size_t>(p)].spec;
        (spec.of_experts ? piece.expert_elements : piece.elements) += spec.shape.count();
      }
    }
  }
  TRIREME_CHECK(std::ssize(kinds) >= small.model.num_layers &&
                static_cast<std::int64_t>(layer) == small.model.num_layers);
  return pieces;
}

}  // namespace trireme
