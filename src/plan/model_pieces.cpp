// Records two micro-batches of a small model, and takes the shortest of what is alike.
#include "plan/model_pieces.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "plan/recorded_rank.h"
#include "timing/replay.h"

namespace trireme {
namespace {

constexpr int passes = 3;

// The first layers, of each kind that there is; `stages` of them at least.
std::int64_t few_layers(const ModelConfig& model, std::int64_t stages) {
  std::set<std::int64_t> kinds;
  std::int64_t count = 1;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer)
    if (kinds.insert(model.moe.experts_in(layer)).second) count = layer + 1;
  return std::max(count, stages);
}

struct Small {
  Config config;
  int ranks = 1;
};

Small small_model(const Config& config, const Layout& layout, bool splits) {
  Small small{with_layout(config, layout)};
  ParallelConfig& p = small.config.parallel;
  p.pp = splits ? 2 : 1;
  p.schedule = splits ? "zb1p" : "1f1b";
  p.virtual_stages = p.dp_replicate = 1;
  p.recompute_layers = 0;
  p.distribute_saved_activations = false;
  small.config.offload = {};
  if (p.zero < 2) p.zero = 0;
  const std::int64_t layers = few_layers(config.model, p.pp);
  p.stage_layers = splits ? std::vector<std::int64_t>{layers - 1, 1} : std::vector<std::int64_t>{};
  small.config.model.num_layers = layers;
  std::int64_t dp = p.zero > 0 ? 2 : 1;
  while (p.tp * p.cp * dp % (p.ep * p.expert_tp) != 0) ++dp;
  small.ranks = static_cast<int>(p.tp * p.cp * dp * p.pp);
  TrainConfig& train = small.config.train;
  train.global_batch_size = 2 * train.micro_batch_size * dp;
  train.rampup_batch_size = {};
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
  const auto [small, ranks] = small_model(config, layout, splits);
  const auto schedules = std::make_shared<PlannedSchedules>();
  const int stages = static_cast<int>(small.parallel.pp);
  ModelPieces pieces;
  std::int64_t layer = 0;
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
                                    : pieces.layers[small.model.moe.experts_in(layer++)];
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
  TRIREME_CHECK(layer == small.model.num_layers);
  return pieces;
}

}  // namespace trireme
