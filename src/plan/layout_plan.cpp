// Plans one rank per pipeline position and counts over its graphs.
#include "plan/layout_plan.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/thread_pool.h"
#include "config/presets.h"
#include "graph/op.h"
#include "train/setup.h"

namespace trireme {
namespace {

// Bytes that one of `ranks` tensor-parallel ranks sends for a collective op.
double bytes_sent(const Graph& graph, const Node& node, int ranks) {
  const auto bytes = [&](ValueId id) { return static_cast<double>(graph.value(id).bytes()); };
  switch (node.op) {
    case OpKind::all_reduce:
      return all_reduce_traffic(bytes(node.outputs[0]), ranks);
    case OpKind::softmax_merge:  // the largest logits, then sums and targets' logits
      return all_reduce_traffic(bytes(node.outputs[0]), ranks) +
             all_reduce_traffic(2 * bytes(node.outputs[0]), ranks);
    case OpKind::all_gather:
      return scatter_traffic(bytes(node.outputs[0]), ranks);
    case OpKind::reduce_scatter:
      return scatter_traffic(bytes(node.inputs[0]), ranks);
    default:
      return 0;
  }
}

// What one micro-batch costs a stage.
struct PassCosts {
  PassTimes flops;
  double tensor_bytes = 0;
};

PassCosts costs_of(const Stage& stage, int tensor_ranks) {
  PassCosts costs;
  costs.flops = {0, 0, 0};
  const StageDefinition& definition = stage.definition();
  for (const SegmentInstance& instance : definition.segments) {
    const Graph& graph = *definition.templates[instance.segment].train;
    const SegmentPlan& plan = stage.segment_plan(instance.segment, true);
    const auto count = [&](const std::vector<Node>& nodes, double& flops) {
      for (const Node& node : nodes) {
        flops += cost_of(graph, node).flops;
        costs.tensor_bytes += bytes_sent(graph, node, tensor_ranks);
      }
    };
    count(plan.forward, costs.flops.forward);
    count(plan.backward, costs.flops.input_grad);
    count(plan.weight_grad, costs.flops.weight_grad);
  }
  return costs;
}

double total(const PassTimes& times) {
  return times.forward + times.input_grad + times.weight_grad;
}

}  // namespace

LayoutPlan plan_layout(const Config& config, int ranks) {
  const BuildOptions build = build_options(config);
  LayoutPlan plan{Mesh({})};
  std::vector<PassTimes> times;
  const auto schedules = std::make_shared<PlannedSchedules>();
  for (int position = 0; position < static_cast<int>(config.parallel.pp); ++position) {
    const int rank = ranks / static_cast<int>(config.parallel.pp) * position;
    Engine engine(config, build, {}, {rank, ranks}, schedules);
    if (position == 0) {
      plan.mesh = engine.mesh();
      const MeshDegrees& degrees = plan.mesh.degrees();
      const std::int64_t samples = global_batch_size(config, ranks);
      plan.parameters = parameter_count(config.model);
      plan.micro_batches = samples / (config.train.micro_batch_size * degrees.dp());
      plan.tokens = static_cast<double>(samples * config.model.seq_length);
      plan.flops = plan.tokens * training_flops_per_token(config.model);
      plan.schedule = engine.schedule(plan.micro_batches);
      plan.even = engine.schedule_report(plan.micro_batches);
      times.resize(plan.schedule.placement.stages());
    }
    const StagePlacement& placement = plan.schedule.placement;
    const auto layers =
        assign_layers(config.model.num_layers, placement, config.parallel.stage_layers);
    const auto micro_batches = static_cast<double>(plan.micro_batches);
    RankPlan one;
    one.pipeline_rank = position;
    one.memory = planned_memory(engine, config);
    one.besides = memory_besides(engine, config, ThreadPool::global().size());
    for (int c = 0; c < engine.chunks(); ++c) {
      const int stage = placement.stage(position, c);
      const PassCosts costs = costs_of(engine.stage(c), plan.mesh.degrees().tp);
      times[stage] = {costs.flops.forward / 1e12, costs.flops.input_grad / 1e12,
                      costs.flops.weight_grad / 1e12};
      one.layers.push_back(layers[stage]);
      for (const Parameter& parameter : engine.stage(c).definition().parameters)
        one.parameters += parameter.spec.shape.count();
      one.flops += total(costs.flops) * micro_batches;
      one.traffic.tensor += costs.tensor_bytes * micro_batches + engine.partial_gradient_traffic(c);
      one.traffic.gradients += engine.gradient_traffic(c, plan.micro_batches);
      one.traffic.parameters += engine.parameter_traffic(c, plan.micro_batches);
    }
    one.traffic.pipeline = static_cast<double>(plan.even.ranks[position].sends) *
                           static_cast<double>(engine.stage().boundary_bytes());
    plan.ranks.push_back(std::move(one));
  }
  CheckOptions by_flops;
  by_flops.times = times;
  plan.by_flops = time_schedule(plan.schedule, plan.even, by_flops);
  return plan;
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

// Pipeline positions that fit into a table: both ends, and some between.
std::vector<const RankPlan*> shown(const LayoutPlan& plan) {
  constexpr std::size_t room = 6;
  const std::size_t count = plan.ranks.size();
  std::vector<const RankPlan*> ranks;
  for (std::size_t i = 0; i < std::min(count, room); ++i)
    ranks.push_back(&plan.ranks[count <= room ? i : i * (count - 1) / (room - 1)]);
  return ranks;
}

// Regions down, pipeline positions across.
std::string memory_table(const std::vector<const RankPlan*>& ranks) {
  std::string text = fmt::format("{:<28}", "memory of a rank");
  for (const RankPlan* rank : ranks)
    text += fmt::format(" {:>12}", fmt::format("pp {}", rank->pipeline_rank));
  text += '\n';
  const auto row = [&](const std::string& name, auto&& value) {
    std::string line = fmt::format("  {:<26}", name);
    bool any = false;
    for (const RankPlan* rank : ranks) {
      const std::int64_t size = value(*rank);
      any |= size > 0;
      line += fmt::format(" {:>12}", bytes_to_text(size));
    }
    if (any) text += line + '\n';
  };
  for (const MemoryRegion& region : ranks[0]->memory.regions) {
    row(region.name, [&](const RankPlan& rank) {
      for (const MemoryRegion& same : rank.memory.regions)
        if (same.name == region.name) return same.bytes;
      return std::int64_t{0};
    });
  }
  row("total", [](const RankPlan& rank) { return rank.memory.total(); });
  text += "besides, at most about\n";
  for (const MemoryRegion& region : ranks[0]->besides.regions) {
    row(region.name, [&](const RankPlan& rank) {
      for (const MemoryRegion& same : rank.besides.regions)
        if (same.name == region.name) return same.bytes;
      return std::int64_t{0};
    });
  }
  return text;
}

std::string traffic_table(const std::vector<const RankPlan*>& ranks) {
  std::string text = fmt::format("{:<56}   sent per step for\n{:<8} {:<18} {:>14} {:>13}", "",
                                 "rank of", "layers", "parameters", "TFLOP/step");
  for (const char* what : {"layers", "pipeline", "gradients", "parameters"})
    text += fmt::format(" {:>12}", what);
  text += '\n';
  for (const RankPlan* rank : ranks) {
    text += fmt::format("{:<8} {:<18} {:>14} {:>13.3f}", fmt::format("pp {}", rank->pipeline_rank),
                        layers_text(*rank), rank->parameters, rank->flops / 1e12);
    for (const double sent : {rank->traffic.tensor, rank->traffic.pipeline, rank->traffic.gradients,
                              rank->traffic.parameters})
      text += fmt::format(" {:>12}", bytes(sent));
    text += '\n';
  }
  return text;
}

}  // namespace

namespace {

// Tokens of the usual files of a kind of tokenizer; 0 where they differ.
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
    fail_input("a plan needs the size of the vocabulary: set model.vocab_size ({})", why);
  }
  return fmt::format("planned with the {} tokens of {}, since {}", model.vocab_size,
                     preset ? model.preset : "the usual " + config.data.tokenizer + " tokenizer",
                     why);
}

std::string to_text(const LayoutPlan& plan, const Config& config) {
  std::string text = fmt::format(
      "mesh: {}; ZeRO {}, {} numerics\n"
      "model: {}, {} layers, {} parameters; precision {}\n"
      "step: {:.0f} tokens, {} micro-batches of {} per rank; {:.3f} TFLOP without recomputation\n",
      plan.mesh.text(), config.parallel.zero, config.parallel.numerics, config.model.family,
      config.model.num_layers, plan.parameters, config.run.precision, plan.tokens,
      plan.micro_batches, config.train.micro_batch_size, plan.flops / 1e12);
  if (plan.ranks.size() > 1) {
    text += fmt::format("schedule: {}\n", summary(plan.schedule, plan.even));
    text += fmt::format("  if passes take as long as their flops: idle for {:.1f}% of a step\n",
                        100 * plan.by_flops.bubble);
  }
  const std::vector<const RankPlan*> ranks = shown(plan);
  text += '\n' + memory_table(ranks) + '\n' + traffic_table(ranks);
  return text;
}

}  // namespace trireme
