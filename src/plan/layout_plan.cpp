// Runs one step of one rank per pipeline position on a recording device, and sums its record.
#include "plan/layout_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/counted.h"
#include "base/error.h"
#include "config/presets.h"
#include "plan/recorded_rank.h"
#include "plan/timing/costs.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

// Per-step totals are not part of any category.
double& part_of(Traffic& traffic, TimeKind kind, double& rest) {
  switch (kind) {
    case TimeKind::tensor:
      return traffic.tensor;
    case TimeKind::context:
      return traffic.context;
    case TimeKind::pipeline:
      return traffic.pipeline;
    case TimeKind::experts:
      return traffic.experts;
    case TimeKind::parameters:
      return traffic.parameters;
    case TimeKind::gradients:
      return traffic.gradients;
    case TimeKind::products:
    case TimeKind::attention:
    case TimeKind::kernels:
    case TimeKind::states:
    case TimeKind::host:
    case TimeKind::offload:
    case TimeKind::totals:
    case TimeKind::count:
      break;
  }
  return rest;
}

// Flops and bytes of a recorded step, and flops by chunk and pass of one micro-batch.
struct StepCosts {
  double flops = 0;
  Traffic traffic;
  StoreTraffic files, host;
};

StepCosts costs_of(const Record& record) {
  StepCosts costs;
  double rest = 0;  // totals of a step
  std::vector<TimeKind> kinds;
  for (const RecordedGroup& group : record.groups()) kinds.push_back(kind_of_group(group.name));
  record.for_each([&](const RecordedWork& work, std::int64_t times) {
    costs.flops += work.flops * static_cast<double>(times);
    if (work.kind == RecordedWork::Kind::message)
      part_of(costs.traffic, kinds[static_cast<std::size_t>(work.group)], rest) +=
          work.bytes * static_cast<double>(times);
    StoreTraffic& store = work.operation < 0 ? costs.files : costs.host;
    if (work.kind == RecordedWork::Kind::load)
      store.read += work.bytes * static_cast<double>(times);
    if (work.kind == RecordedWork::Kind::store)
      store.written += work.bytes * static_cast<double>(times);
  });
  return costs;
}

// Extrapolates to a step with `turns` more loop iterations, each of which costs the difference of
// `two` and `one`.
StepCosts extended(const StepCosts& one, const StepCosts& two, double turns) {
  const auto extend = [&](double a, double b) { return a + turns * (b - a); };
  const Traffic &a = one.traffic, &b = two.traffic;
  return {extend(one.flops, two.flops),
          {extend(a.tensor, b.tensor), extend(a.context, b.context), extend(a.experts, b.experts),
           extend(a.pipeline, b.pipeline), extend(a.gradients, b.gradients),
           extend(a.parameters, b.parameters)},
          {extend(one.files.read, two.files.read), extend(one.files.written, two.files.written)},
          {extend(one.host.read, two.host.read), extend(one.host.written, two.host.written)}};
}

// A long step repeats loop iterations: after this many it is periodic, and each additional
// iteration costs the same.
constexpr int recorded_turns = 2;

StepCosts record_costs(RecordedRank& rank, std::int64_t micro_batches, RankPlan& plan,
                       double& further) {
  const Schedule& schedule = rank.engine.schedule(micro_batches).schedule;
  if (schedule.more_turns <= recorded_turns) {
    plan.program = rank.record_step(micro_batches);
    return costs_of(plan.program);
  }
  const std::int64_t turn = schedule.turn, more = schedule.more_turns - recorded_turns;
  further = static_cast<double>(more);
  plan.shorter = rank.record_step(micro_batches - (more + 1) * turn);
  plan.program = rank.record_step(micro_batches - more * turn);
  return extended(costs_of(plan.shorter), costs_of(plan.program), further + 1);
}

// Flops of one micro-batch in each pass of a chunk.
PassTimes flops_of(const Record& record, int chunk) {
  double sums[3] = {};
  std::set<std::pair<int, int>> counted;  // first and later micro-batches have equal flops
  for (const auto& [key, piece] : record.pieces()) {
    if (key.chunk != chunk || !counted.insert({key.pass, key.segment}).second) continue;
    for (const RecordedWork& work : piece.work) sums[key.pass] += work.flops;
  }
  return {sums[static_cast<int>(Pass::forward)] / 1e12,
          sums[static_cast<int>(Pass::backward)] / 1e12,
          sums[static_cast<int>(Pass::weight_grad)] / 1e12};
}

struct Attentions {
  double all = 0, causal = 0;
};

void count_attentions(const StageDefinition& definition, Attentions& found) {
  for (const SegmentInstance& segment : definition.segments) {
    const SegmentTemplate& part = definition.templates[static_cast<std::size_t>(segment.segment)];
    for (const Node& node : part.eval->forward) {
      const auto* attention = std::get_if<AttentionAttributes>(&node.attributes);
      if (!attention) continue;
      ++found.all;
      found.causal += attention->causal ? 1 : 0;
    }
  }
}

}  // namespace

LayoutPlan plan_layout(const Config& config, int ranks, const Target& target,
                       std::shared_ptr<PlannedSchedules> schedules) {
  if (!schedules) schedules = std::make_shared<PlannedSchedules>();
  LayoutPlan plan{target, Mesh({})};
  std::vector<PassTimes> times;
  Attentions attentions;
  for (int position = 0; position < static_cast<int>(config.parallel.pp); ++position) {
    const int rank = ranks / static_cast<int>(config.parallel.pp) * position;
    RecordedRank recorded(config, target, {rank, ranks}, schedules);
    recorded.allocate();
    Engine& engine = recorded.engine;
    if (position == 0) {
      plan.mesh = engine.mesh();
      const MeshDegrees& degrees = plan.mesh.degrees();
      const std::int64_t samples = global_batch_size(config, ranks);
      plan.parameters = parameter_count(config.model);
      plan.micro_batches = samples / (config.train.micro_batch_size * degrees.dp());
      plan.tokens = static_cast<double>(samples * config.model.seq_length);
      plan.flops = plan.tokens * training_flops_per_token(config.model);
      const PlannedSchedule& planned = engine.schedule(plan.micro_batches);
      plan.schedule = planned.schedule;
      plan.even = planned.report;
      times.resize(plan.schedule.placement.stages());
    }
    const StagePlacement& placement = plan.schedule.placement;
    const auto layers =
        assign_layers(config.model.num_layers, placement, config.parallel.stage_layers);
    RankPlan one;
    one.pipeline_rank = position;
    one.memory = planned_memory(engine, config);
    one.in_files = engine.stored(OffloadPlace::file);
    one.on_host = planned_on_host(engine, config);
    auto [on_device, on_host] = memory_besides(engine, config, threads_of(target));
    one.besides = std::move(on_device);
    one.besides_on_host = std::move(on_host);
    const StepCosts costs = record_costs(recorded, plan.micro_batches, one, plan.further_turns);
    one.flops = costs.flops;
    one.traffic = costs.traffic;
    one.files = costs.files;
    one.host = costs.host;
    for (int c = 0; c < engine.chunks(); ++c) {
      const int stage = placement.stage(position, c);
      times[stage] = flops_of(one.program, c);
      one.layers.push_back(layers[stage]);
      const StageDefinition& definition = engine.stage(c).definition();
      for (const Parameter& parameter : definition.parameters)
        one.parameters += parameter.spec.shape.count();
      count_attentions(definition, attentions);
    }
    plan.ranks.push_back(std::move(one));
  }
  plan.causal_share = attentions.all > 0 ? attentions.causal / attentions.all : 0;
  CheckOptions by_flops;
  by_flops.times = times;
  plan.by_flops = time_schedule(plan.schedule, plan.even, by_flops);
  return plan;
}

namespace {

std::string name_of_piece(const WorkKey& key) {
  constexpr const char* passes[] = {"forward", "backward", "weight gradient", "evaluation"};
  return fmt::format("{} of chunk {}, segment {}{}", passes[key.pass], key.chunk, key.segment,
                     key.first_micro_batch ? ", first micro-batch" : "");
}

std::string list(const Record& record, const RecordedPiece& piece) {
  std::string text;
  for (const RecordedWork& work : piece.work) {
    if (work.kind == RecordedWork::Kind::piece) {
      text += fmt::format("    {}\n", name_of_piece(work.key));
      continue;
    }
    if (work.kind == RecordedWork::Kind::wait) {
      text += fmt::format("    {:<22} waits for number {}\n", work.op, work.operation);
      continue;
    }
    text += fmt::format("    {:<22} {}", work.op, work.name);
    if (work.group >= 0)
      text += fmt::format(" [{}], number {}", record.group_of(work).name, work.operation);
    if (work.flops > 0) text += fmt::format("  {:.4g} flops", work.flops);
    if (work.bytes > 0) text += fmt::format("  {:.0f} bytes", work.bytes);
    text += '\n';
  }
  return text;
}

}  // namespace

std::string program_text(const LayoutPlan& plan) {
  std::string text;
  for (const RankPlan& rank : plan.ranks) {
    text += fmt::format("rank of pp {}\n", rank.pipeline_rank);
    for (const auto& [key, piece] : rank.program.pieces())
      text += fmt::format("  {}, {} times\n{}", name_of_piece(key), piece.times,
                          list(rank.program, piece));
    text += "  the step\n" + list(rank.program, rank.program.rest());
  }
  return text;
}

namespace {

std::string layers_text(const RankPlan& rank) {
  std::string text;
  for (const LayerRange& range : rank.layers) {
    text += text.empty() ? "" : ", ";
    text += range.count() == 0 ? "none" : fmt::format("{}-{}", range.begin, range.end - 1);
  }
  return text;
}

std::string bytes(double count) {
  return bytes_to_text(static_cast<std::int64_t>(count));
}

// Pipeline positions that fit into a table: both ends, and some in between.
std::vector<const RankPlan*> shown(const LayoutPlan& plan) {
  constexpr std::size_t room = 6;
  const std::size_t count = plan.ranks.size();
  std::vector<const RankPlan*> ranks;
  for (std::size_t i = 0; i < std::min(count, room); ++i)
    ranks.push_back(&plan.ranks[count <= room ? i : i * (count - 1) / (room - 1)]);
  return ranks;
}

// A text table with columns as wide as their contents.
class TextTable {
 public:
  // The first row is the header.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Adds a full-width line.
  void add_title(std::string title) { rows_.push_back({std::move(title)}); }

  // The first column, and the second too with `two_texts`, are left-aligned.
  std::string text(bool two_texts = false) const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
      if (row.size() == 1) continue;
      widths.resize(std::max(widths.size(), row.size()));
      for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t c = 0; c < row.size(); ++c) {
        if (row.size() == 1)
          line += row[c];
        else if (c == 0 || (c == 1 && two_texts))
          line += fmt::format("{}{:<{}}", c == 0 ? "" : "  ", row[c], widths[c]);
        else
          line += fmt::format("  {:>{}}", row[c], widths[c]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + '\n';
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

using ShownRanks = std::vector<const RankPlan*>;

// Adds a row of byte counts, if any rank's is nonzero.
template <class Value>
void add_bytes(TextTable& table, const ShownRanks& ranks, const std::string& name,
               const Value& value) {
  std::vector<std::string> cells = {"  " + name};
  bool any = false;
  for (const RankPlan* rank : ranks) {
    const std::int64_t size = value(*rank);
    any |= size > 0;
    cells.push_back(bytes_to_text(size));
  }
  if (any) table.add(std::move(cells));
}

void add_regions(TextTable& table, const ShownRanks& ranks, MemoryPlan RankPlan::*plan) {
  for (const MemoryRegion& region : (ranks[0]->*plan).regions) {
    add_bytes(table, ranks, region.name, [&](const RankPlan& rank) {
      for (const MemoryRegion& same : (rank.*plan).regions)
        if (same.name == region.name) return same.bytes;
      return std::int64_t{0};
    });
  }
}

void add_stored(TextTable& table, const ShownRanks& ranks, StoredBytes RankPlan::*stored,
                StoreTraffic RankPlan::*moved) {
  const auto rounded = [](double bytes) { return static_cast<std::int64_t>(bytes); };
  const auto add = [&](const char* name, const auto& value) {
    add_bytes(table, ranks, name, value);
  };
  add("optimizer states", [&](const RankPlan& rank) { return (rank.*stored).states; });
  add("parameters", [&](const RankPlan& rank) { return (rank.*stored).parameters; });
  add("activations", [&](const RankPlan& rank) { return (rank.*stored).activations; });
  add("copy for checkpoints", [&](const RankPlan& rank) { return (rank.*stored).copies; });
  add("read per step", [&](const RankPlan& rank) { return rounded((rank.*moved).read); });
  add("written per step", [&](const RankPlan& rank) { return rounded((rank.*moved).written); });
}

// Rows are memory regions, columns are pipeline positions.
std::string memory_table(const ShownRanks& ranks) {
  TextTable table;
  std::vector<std::string> heads = {"memory per rank"};
  for (const RankPlan* rank : ranks) heads.push_back(fmt::format("pp {}", rank->pipeline_rank));
  table.add(std::move(heads));
  add_regions(table, ranks, &RankPlan::memory);
  add_bytes(table, ranks, "total", [](const RankPlan& rank) { return rank.memory.total(); });
  const auto any = [&](StoredBytes RankPlan::*stored) {
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](const RankPlan* rank) { return (rank->*stored).total() > 0; });
  };
  if (any(&RankPlan::in_files)) {
    table.add_title("in files");
    add_stored(table, ranks, &RankPlan::in_files, &RankPlan::files);
  }
  table.add_title("estimated additional memory, at most");
  add_regions(table, ranks, &RankPlan::besides);
  if (ranks[0]->besides_on_host.total() == 0 && !any(&RankPlan::on_host)) return table.text();
  table.add_title("in host memory");
  add_stored(table, ranks, &RankPlan::on_host, &RankPlan::host);
  add_regions(table, ranks, &RankPlan::besides_on_host);
  return table.text();
}

std::string traffic_table(const ShownRanks& ranks) {
  const auto any = [&](double Traffic::*sent) {
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](const RankPlan* rank) { return rank->traffic.*sent > 0; });
  };
  struct Column {
    const char* what;
    double Traffic::*sent;
  };
  std::vector<Column> columns = {{"layers", &Traffic::tensor}};
  if (any(&Traffic::context)) columns.push_back({"attention", &Traffic::context});
  if (any(&Traffic::experts)) columns.push_back({"experts", &Traffic::experts});
  columns.push_back({"pipeline", &Traffic::pipeline});
  columns.push_back({"gradients", &Traffic::gradients});
  columns.push_back({"parameters", &Traffic::parameters});
  TextTable table;
  std::vector<std::string> heads = {"rank of", "layers", "parameters", "TFLOP/step"};
  for (const Column& column : columns) heads.push_back(fmt::format("sent: {}", column.what));
  table.add(std::move(heads));
  for (const RankPlan* rank : ranks) {
    std::vector<std::string> cells = {fmt::format("pp {}", rank->pipeline_rank), layers_text(*rank),
                                      std::to_string(rank->parameters),
                                      fmt::format("{:.3f}", rank->flops / 1e12)};
    for (const Column& column : columns) cells.push_back(bytes(rank->traffic.*column.sent));
    table.add(std::move(cells));
  }
  return table.text(true);
}

}  // namespace

namespace {

// Vocabulary size of the usual files for a tokenizer type; 0 if they differ.
std::int64_t usual_vocabulary(const std::string& tokenizer) {
  if (tokenizer == "gpt2") return 50257;
  if (tokenizer == "bert") return 30522;
  if (tokenizer == "bert_cased") return 28996;
  return tokenizer == "llama2" ? 32000 : 0;
}

}  // namespace

std::string assume_vocabulary(Config& config) {
  ModelConfig& model = config.model;
  if (model.vocab_size > 0) return "";
  std::string why = "data.tokenizer is not set";
  if (!config.data.tokenizer.empty()) {
    try {
      resolve_vocabulary(config);
      return "";
    } catch (const Error& error) {
      why = error.what();
    }
  }
  const Preset* preset = find_preset(model.preset);
  model.vocab_size = preset ? preset->vocabulary : usual_vocabulary(config.data.tokenizer);
  if (model.vocab_size == 0) {
    fail_input("planning requires the vocabulary size: set model.vocab_size ({})", why);
  }
  return fmt::format("planned with the vocabulary size {} of {}, because {}", model.vocab_size,
                     preset ? model.preset : "the usual " + config.data.tokenizer + " tokenizer",
                     why);
}

std::string to_text(const LayoutPlan& plan, const Config& config) {
  std::string text = fmt::format(
      "mesh: {}; ZeRO {}, {} numerics\n"
      "model: {}, {}, {} parameters; precision {}\n"
      "step: {:.0f} tokens, {} of {} per rank; {:.3f} TFLOP without recomputation\n",
      plan.mesh.text(), config.parallel.zero, config.parallel.numerics, config.model.family,
      counted(config.model.num_layers, "layer"), plan.parameters, precision_text(config),
      plan.tokens, counted(plan.micro_batches, "micro-batch"),
      counted(config.train.micro_batch_size, "sequence"), plan.flops / 1e12);
  if (plan.ranks.size() > 1) {
    text += fmt::format("schedule: {}\n", summary(plan.schedule, plan.even));
    text += fmt::format("  weighted by the FLOPs of each pass: bubble {:.1f}%\n",
                        100 * plan.by_flops.bubble);
  }
  const std::vector<const RankPlan*> ranks = shown(plan);
  text += '\n' + memory_table(ranks) + '\n' + traffic_table(ranks);
  const std::int64_t ep = config.parallel.ep, sharing = ep * config.parallel.expert_tp;
  if (sharing > 1) {
    const ExpertConfig& moe = config.model.moe;
    const std::int64_t at_once = (moe.top_k + ep - 1) / ep;
    const std::int64_t most = std::min(moe.top_k, moe.num_experts / ep);
    text += fmt::format(
        "experts: with a balanced load, every rank receives one round from each of the {0} others; "
        "a rank whose experts receive all tokens needs {1} rounds and sends {2} times as much\n",
        sharing - 1, (most + at_once - 1) / at_once, ep);
  }
  return text;
}

}  // namespace trireme
