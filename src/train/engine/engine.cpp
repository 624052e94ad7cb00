// A rank of the mesh: its stages with their states, and their memory.
#include "train/engine/engine.h"

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "config/batch_sizes.h"
#include "config/offload.h"
#include "config/optimizers.h"
#include "config/width.h"
#include "train/schedule/curriculum.h"

namespace trireme {
namespace {

constexpr const char* word_table = "embedding.word.weight";
constexpr const char* sums_in_order = "sums in the order of ranks";

MeshDegrees degrees_of(const Config& config, int ranks) {
  const ParallelConfig& p = config.parallel;
  MeshDegrees degrees;
  degrees.tp = static_cast<int>(p.tp);
  degrees.cp = static_cast<int>(p.cp);
  degrees.ep = static_cast<int>(p.ep);
  degrees.expert_tp = static_cast<int>(p.expert_tp);
  degrees.experts = config.model.moe.num_experts > 0;
  degrees.kv_copies = static_cast<int>(std::max<std::int64_t>(1, p.tp / config.model.num_kv_heads));
  degrees.pp = static_cast<int>(p.pp);
  degrees.dp_replicate = static_cast<int>(p.dp_replicate);
  return fit_degrees(ranks, degrees);
}

// Without a pipeline each micro-batch simply runs forward and backward.
ScheduleKind schedule_kind(const ParallelConfig& p) {
  return p.pp == 1 ? ScheduleKind::one_f_one_b : p.schedule;
}

StagePlacement placement_of(const ParallelConfig& p) {
  StagePlacement placement;
  placement.ranks = static_cast<int>(p.pp);
  placement.chunks = p.pp == 1 ? 1 : static_cast<int>(stages_per_rank(p));
  placement.v_shaped = p.pp > 1 && entry_of(p.schedule).chunks == ChunkRule::folded;
  return placement;
}

// Micro-batches per rank over the run's steps: some schedules need more memory with fewer.
std::set<std::int64_t> micro_batch_counts(const Config& config, int ranks, int dp) {
  const std::int64_t unit = config.train.micro_batch_size * dp;
  std::set<std::int64_t> counts;
  for (const std::int64_t size : batch_sizes(config, ranks))
    counts.insert(std::max<std::int64_t>(1, size / unit));
  return counts;
}

int index_of(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

StateOptions state_options(const Config& config, const Mesh& mesh, int rank, bool split) {
  const ParallelConfig& p = config.parallel;
  StateOptions options;
  const int zero = static_cast<int>(p.zero);
  options.degree = mesh.group_size(shard_axes(zero));
  options.rank = mesh.index_in_group(rank, shard_axes(zero));
  if (mesh.degrees().experts_apart()) {
    const std::vector<int> sharing = expert_shard_group(mesh, rank, zero);
    options.expert_degree = static_cast<int>(sharing.size());
    options.expert_rank = index_of(sharing, rank);
  }
  options.zero = options.degree > 1 || options.expert_degree > 1 ? zero : 0;
  options.exact = p.exact();
  options.exact_blocks = p.exact_block > 0;
  options.narrow_gradients = config.run.gradient_dtype == StateType::bf16;
  options.split_weight_grad = split;
  options.matrices_apart = entry_of(config.optimizer.name).whole_matrices;
  options.parameters_elsewhere = leaves_memory(config, config.offload.parameters);
  // Counts of the choices of a layer's experts stay whole.
  const ExpertConfig& moe = config.model.moe;
  while ((moe.expert_bias || moe.keeps_load()) && options.grain < moe.num_experts)
    options.grain *= 2;
  options.tied = word_table;
  return options;
}

// `where`: the configuration value that selects the location.
OffloadOptions offload_options(const Config& config, OffloadPlace where) {
  OffloadOptions options;
  if (!leaves_memory(config, where)) return options;
  options.place = where;
  options.folder = config.offload.path;
  options.timeout_s = config.train.timeout_s;
  return options;
}

// Whether saved inputs of fully recomputed layers are sharded over tensor-parallel ranks; not with
// sequence parallelism, which already shards them.
bool distributes(const ParallelConfig& p) {
  return p.distribute_saved_activations && p.tp > 1 && !p.sequence_parallel &&
         p.recompute == Recompute::full;
}

// Number of leading layers of a stage whose activations are not kept in slots.
std::int64_t windowed_layers(const Config& config) {
  const auto or_all = [&](std::int64_t some) { return some > 0 ? some : config.model.num_layers; };
  if (distributes(config.parallel)) return or_all(config.parallel.recompute_layers);
  if (leaves_memory(config, config.offload.activations))
    return or_all(config.offload.activation_layers);
  return 0;
}

std::unique_ptr<ActivationWindows> windows_of(const Config& config, const Stage& stage, int slots) {
  if (stage.windowed() == 0) return nullptr;
  return std::make_unique<ActivationWindows>(
      stage, distributes(config.parallel)
                 ? activations_in_parts(stage)
                 : activations_elsewhere(stage, slots,
                                         offload_options(config, config.offload.activations)));
}

BuildOptions build_on(const BuildOptions& build, const Config& config, const Mesh& mesh, int rank) {
  BuildOptions local = build;
  local.tensor.size = mesh.degrees().tp;
  local.tensor.rank = mesh.place_of(rank).tp;
  local.tensor.sequence_parallel = config.parallel.sequence_parallel && local.tensor.size > 1;
  local.tensor.leaves = static_cast<int>(config.parallel.exact_leaves);
  local.context.size = mesh.degrees().cp;
  local.context.rank = mesh.place_of(rank).cp;
  local.expert.size = mesh.degrees().expert_ranks();
  local.expert.tensor_size = mesh.degrees().expert_tp;
  local.expert.rank = index_of(mesh.expert_group(rank), rank);
  local.expert.exact = config.parallel.exact();
  local.expert.apart = mesh.degrees().experts_apart();
  return local;
}

}  // namespace

Engine::Engine(const Config& config, const BuildOptions& build, const StageOptions& stage,
               RankOf rank, std::shared_ptr<PlannedSchedules> schedules)
    : mesh_(degrees_of(config, rank.size)),
      rank_(rank.rank),
      place_(mesh_.place_of(rank.rank)),
      placement_(placement_of(config.parallel)),
      schedule_kind_(schedule_kind(config.parallel)),
      build_(build_on(build, config, mesh_, rank_)),
      states_(state_options(config, mesh_, rank_, splits_backward(schedule_kind_))),
      layers_(assign_layers(config.model.num_layers, placement_, config.parallel.stage_layers)),
      losses_(losses_of(config.model)),
      seq_(build.seq > 0 ? build.seq : config.model.seq_length),
      seed_(static_cast<std::uint64_t>(config.run.seed)),
      model_(config.model),
      optimizer_(config.optimizer),
      places_{offload_options(config, config.offload.optimizer).place,
              offload_options(config, config.offload.parameters).place,
              offload_options(config, config.offload.activations).place},
      zero_(static_cast<int>(config.parallel.zero)),
      device_(*stage.device),
      schedules_(schedules ? std::move(schedules) : std::make_shared<PlannedSchedules>()) {
  for (const std::int64_t n : micro_batch_counts(config, rank.size, mesh_.degrees().dp()))
    buffers_.join(buffers_of(schedule(n), place_.pp));

  slots_ = std::make_unique<SlotMemory>(buffers_.slots);
  std::vector<PipelineChunk> parts;
  for (int c = 0; c < placement_.chunks; ++c) {
    auto chunk = std::make_unique<Chunk>();
    chunk->number = placement_.stage(place_.pp, c);
    StageDefinition definition = define(*chunk, seq_);
    StageOptions options = stage;
    options.slot_memory = slots_.get();
    options.late_slots = buffers_.chunks[c].late_slots;
    options.split_weight_grad = states_.split_weight_grad;
    options.parameter_windows = chunk->layout->parameters_in_windows();
    options.gradient_windows = chunk->layout->gradients_in_windows();
    options.windowed_layers = windowed_layers(config);
    options.input_parts = distributes(config.parallel) ? static_cast<int>(config.parallel.tp) : 0;
    chunk->stage = std::make_unique<Stage>(std::move(definition), options);
    for (const std::int64_t length : Curriculum(config).lengths()) {
      if (length < seq_) chunk->stage->reserve(define(*chunk, length));
    }
    chunk->parameters = std::make_unique<Parameters>(
        *chunk->stage, *chunk->layout, offload_options(config, config.offload.parameters));
    chunk->gradients = std::make_unique<Gradients>(*chunk->stage, *chunk->layout);
    chunk->optimizer = std::make_unique<Optimizer>(
        *chunk->stage, *chunk->layout, *chunk->parameters, *chunk->gradients, config.optimizer,
        offload_options(config, config.offload.optimizer), width_ratio(config.model));
    chunk->activations = windows_of(config, *chunk->stage, buffers_.slots);
    parts.push_back({chunk->stage.get(), chunk->parameters.get(), chunk->gradients.get(),
                     chunk->activations.get()});
    chunks_.push_back(std::move(chunk));
  }
  runner_ = std::make_unique<PipelineRunner>(parts, placement_, place_.pp, buffers_);
  runner_->set_slot_bytes(slots_->plan().total() / buffers_.slots);
}

Engine::~Engine() = default;

// Parameters have the same offsets for every sequence length.
StageDefinition Engine::define(Chunk& chunk, std::int64_t seq) const {
  const int number = chunk.number;
  BuildOptions build = build_;
  build.seq = seq;
  build.part = {layers_[number].begin, layers_[number].count(), number == 0,
                number == placement_.stages() - 1};
  StageDefinition definition = build_model(model_, build);
  if (!chunk.layout) chunk.layout = std::make_unique<StateLayout>(definition, states_);
  chunk.layout->lay_out(definition);
  return definition;
}

void Engine::set_trace(Trace* trace) {
  runner_->set_trace(trace);
  for (auto& chunk : chunks_) {
    chunk->parameters->set_trace(trace);
    chunk->optimizer->set_trace(trace);
    if (chunk->activations) chunk->activations->set_trace(trace);
  }
}

StoredBytes Engine::stored(OffloadPlace place) const {
  StoredBytes stored;
  for (const auto& chunk : chunks_) {
    if (places_.states == place) stored.states += chunk->optimizer->states().stored_bytes();
    if (places_.parameters == place) stored.parameters += chunk->parameters->stored_bytes();
    if (places_.activations == place && chunk->activations)
      stored.activations += chunk->activations->stored_bytes();
  }
  return stored;
}

void Engine::set_length(std::int64_t seq) {
  if (seq == seq_) return;
  seq_ = seq;
  for (auto& chunk : chunks_) {
    chunk->stage->reshape(define(*chunk, seq));
    fill_constants(*chunk->stage, model_, seq);
  }
}

MemoryPlan Engine::memory() const {
  MemoryPlan plan;
  for (const auto& chunk : chunks_) {
    plan.merge(chunk->stage->memory());
    plan.merge(chunk->parameters->memory());
    plan.merge(chunk->gradients->memory());
    plan.merge(chunk->optimizer->memory());
  }
  plan.merge(slots_->plan());
  plan.merge(runner_->memory());
  plan.add("scalars and totals of a step",
           align_up(sizeof(StepMemory)) + expert_bytes() + score_bytes());
  const auto [tensor, gradients] = sum_bytes();
  plan.add(sums_in_order, tensor + gradients);
  return plan;
}

// Only sums in a fixed order need buffers: activations, and gradients kept in bf16. Data larger
// than a buffer is summed in several rounds. Groups that share sequences or experts never sum
// activations and get the minimum size.
std::array<std::int64_t, 2> Engine::sum_bytes() const {
  constexpr std::int64_t most = 32 << 20;
  if (device_.target().device == DeviceKind::cpu || mesh_.size() == 1) return {};
  const std::int64_t least = align_up(std::max(least_sum_bytes(mesh_), std::int64_t{64 << 10}));
  std::int64_t gradients = 0;
  for (const auto& chunk : chunks_) {
    if (states_.narrow_gradients)
      gradients += chunk->stage->definition().flat_elements * size_of(DType::bf16);
  }
  const auto within = [&](std::int64_t bytes) {
    return std::max(least, align_up(std::min(most, bytes)));
  };
  const MeshDegrees& degrees = mesh_.degrees();
  const std::int64_t others = degrees.cp > 1 || degrees.expert_ranks() > 1 ? least : 0;
  return {degrees.tp > 1 ? within(chunks_[0]->stage->boundary_bytes()) : others, within(gradients)};
}

void Engine::allocate(Transport* transport) {
  try {
    allocate_all(transport);
  } catch (const OutOfMemory& e) {
    fail(
        "{}. The plan needs {} on this rank: reduce it with a smaller train.micro_batch_size, "
        "parallel.recompute, parallel.zero or more ranks, or free device memory used by other "
        "programs",
        e.what(), bytes_to_text(memory().total()));
  }
}

void Engine::allocate_all(Transport* transport) {
  TRIREME_CHECK(transport ? transport->place().size == mesh_.size() : mesh_.size() == 1);
  const auto [tensor_sums, gradient_sums] = sum_bytes();
  sums_ = MemoryBlock(device_, tensor_sums + gradient_sums, sums_in_order);
  const SumOptions sums{.fixed_order = states_.exact,
                        .tensor = sums_.data(),
                        .gradients = sums_.data() + tensor_sums,
                        .tensor_bytes = tensor_sums,
                        .gradient_bytes = gradient_sums};
  const bool ring = build_.context.attention == ContextAttention::ring;
  groups_ =
      transport ? make_groups(mesh_, zero_, ring, *transport, device_, sums) : make_lone_groups();
  if (groups_.tensor->size() > 1) tensor_group_ = std::make_unique<TensorGroup>(*groups_.tensor);
  RankGroups graph_groups;
  graph_groups[GroupKind::tensor] = tensor_group_.get();
  if (groups_.context->size() > 1) {
    context_group_ = std::make_unique<TensorGroup>(*groups_.context, TensorGroup::of_sequences,
                                                   groups_.ring.get());
    graph_groups[GroupKind::context] = context_group_.get();
  }
  if (groups_.expert) {
    expert_group_ = std::make_unique<TensorGroup>(*groups_.expert, TensorGroup::of_experts);
    graph_groups[GroupKind::expert] = expert_group_.get();
  }
  step_memory_ = MemoryBlock(device_, align_up(sizeof(StepMemory)) + expert_bytes() + score_bytes(),
                             "scalars and totals of a step");
  slots_->allocate(device_);
  for (auto& chunk : chunks_) {
    chunk->stage->allocate(graph_groups);
    chunk->parameters->allocate(groups_);
    chunk->gradients->allocate(groups_);
    chunk->optimizer->allocate(groups_);
    if (chunk->activations) chunk->activations->allocate(groups_);
    fill_constants(*chunk->stage, model_, seq_);
  }
  runner_->allocate(*groups_.pipeline);
}

void Engine::initialize() {
  for (auto& chunk : chunks_) chunk->optimizer->initialize(static_cast<std::int64_t>(seed_));
}

void Engine::refresh_compute() {
  for (auto& chunk : chunks_) chunk->optimizer->refresh_compute();
}

void Engine::set_steps(std::int64_t steps) {
  for (auto& chunk : chunks_) chunk->optimizer->set_steps(steps);
}

bool Engine::owns(int chunk, const ParameterSpec& spec) const {
  const bool tied_copy = spec.name == word_table && chunks_[chunk]->number > 0;
  const int copy = spec.of_experts ? index_of(expert_replicate_group(mesh_, rank_, zero_), rank_)
                                   : mesh_.index_in_group(rank_, replicate_axes(zero_));
  return !tied_copy && (spec.split || spec.of_experts || place_.tp == 0) && copy == 0;
}

const PlannedSchedule& Engine::schedule(std::int64_t micro_batches) const {
  ScheduleRequest request;
  request.kind = schedule_kind_;
  request.ranks = placement_.ranks;
  request.chunks = placement_.chunks;
  request.micro_batches = static_cast<int>(micro_batches);
  // On a GPU, the pipeline queue would block until the message arrives.
  request.early_receives = device_.target().device == DeviceKind::cpu ? 1 : 0;
  return schedules_->of(request);
}

std::uint64_t Engine::layout_hash() const {
  Hasher hasher;
  const auto add = [&](const std::string& text) { hasher.update(text.data(), text.size() + 1); };
  add(mesh_.text());
  for (const auto& chunk : chunks_) {
    for (const Parameter& parameter : chunk->stage->definition().parameters) {
      add(fmt::format("{} {} {}", parameter.name, parameter.spec.shape.text(), parameter.offset));
    }
    for (const SegmentTemplate& segment : chunk->stage->definition().templates) {
      for (const auto* nodes : {&segment.train->forward, &segment.train->backward}) {
        for (const Node& node : *nodes) add(definition(node.op).name);
      }
    }
  }
  add(to_text(memory()));
  return hasher.digest();
}

}  // namespace trireme
