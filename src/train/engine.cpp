// A rank of a mesh: its stages with their states, the walk through the schedule, and what all ranks
// must agree on at the end of a step.
#include "train/engine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "base/hash.h"
#include "train/curriculum.h"
#include "train/not_finite.h"

namespace trireme {
namespace {

constexpr const char* word_table = "embedding.word.weight";

MeshDegrees degrees_of(const ParallelConfig& p, int ranks) {
  MeshDegrees degrees;
  degrees.tp = static_cast<int>(p.tp);
  degrees.cp = static_cast<int>(p.cp);
  degrees.ep = static_cast<int>(p.ep);
  degrees.pp = static_cast<int>(p.pp);
  degrees.dp_replicate = static_cast<int>(p.dp_replicate);
  return fit_degrees(ranks, degrees);
}

// Without a pipeline there is nothing to schedule: each micro-batch forward and back.
ScheduleKind schedule_kind(const ParallelConfig& p) {
  return p.pp == 1 ? ScheduleKind::one_f_one_b : parse_schedule(p.schedule);
}

StagePlacement placement_of(const ParallelConfig& p) {
  StagePlacement placement;
  placement.ranks = static_cast<int>(p.pp);
  placement.chunks = p.pp == 1 ? 1 : static_cast<int>(stages_per_rank(p));
  placement.v_shaped = p.pp > 1 && (p.schedule == "zbv" || p.schedule == "vhalf");
  return placement;
}

// Micro-batches per rank that steps of the run have: some schedules hold more at once with fewer.
std::set<std::int64_t> micro_batch_counts(const Config& config, int ranks, int dp) {
  const std::int64_t unit = config.train.micro_batch_size * dp;
  const std::int64_t full = global_batch_size(config, ranks);
  std::set<std::int64_t> counts = {std::max<std::int64_t>(1, full / unit)};
  const auto& ramp = config.train.rampup_batch_size;
  if (ramp.empty()) return counts;
  for (std::int64_t size = ramp[0]; size < full; size += ramp[1]) counts.insert(size / unit);
  return counts;
}

StateOptions state_options(const ParallelConfig& p, const Mesh& mesh, int rank, bool split) {
  StateOptions options;
  options.degree = mesh.group_size(shard_axes(static_cast<int>(p.zero)));
  options.zero = options.degree > 1 ? static_cast<int>(p.zero) : 0;
  options.rank = mesh.index_in_group(rank, shard_axes(static_cast<int>(p.zero)));
  options.exact = p.numerics == "exact";
  options.split_weight_grad = split;
  options.tied = word_table;
  return options;
}

BuildOptions build_on(const BuildOptions& build, const Config& config, const Mesh& mesh, int rank) {
  BuildOptions local = build;
  local.tensor.size = mesh.degrees().tp;
  local.tensor.rank = mesh.place_of(rank).tp;
  local.tensor.sequence_parallel = config.parallel.sequence_parallel && local.tensor.size > 1;
  return local;
}

// Parameters come before a segment runs, gradients leave behind it.
class StateHooks : public SegmentHooks {
 public:
  StateHooks(Parameters& parameters, Gradients& gradients)
      : parameters_(parameters), gradients_(gradients) {}
  void before(Pass pass, int segment) override {
    parameters_.before(pass, segment);
    gradients_.before(pass, segment);
  }
  void after(Pass pass, int segment) override { gradients_.after(pass, segment); }

 private:
  Parameters& parameters_;
  Gradients& gradients_;
};

// Sums over all ranks, in one message and without rounding.
class Totals {
 public:
  ExactSum loss, tokens, order_loss, samples, squares;
  std::int64_t overflows = 0, stops = 0, saves = 0;

  void add(const LossSum& more) {
    loss.add(more.loss);
    tokens.add(more.tokens);
    order_loss.add(more.order_loss);
    samples.add(more.samples);
  }
  void sum(Communicator& world) {
    std::vector<std::int64_t> words;
    const std::array<ExactSum*, 5> parts = {&loss, &tokens, &order_loss, &samples, &squares};
    for (ExactSum* part : parts) {
      const auto own = part->normalized_words();
      words.insert(words.end(), own.begin(), own.end());
    }
    words.insert(words.end(), {overflows, stops, saves});
    world
        .all_reduce(words.data(), static_cast<std::int64_t>(words.size()), DType::i64,
                    Reduction::sum, "totals of a step")
        .wait();
    auto from = words.begin();
    for (ExactSum* part : parts) {
      std::copy_n(from, ExactSum::word_count, part->normalized_words().begin());
      from += ExactSum::word_count;
    }
    overflows = from[0];
    stops = from[1];
    saves = from[2];
  }
  LossSum losses() const {
    return {loss.value(), tokens.value(), order_loss.value(), samples.value()};
  }
};

}  // namespace

// What the runner needs of the engine while it walks.
class Engine::Client : public PipelineClient {
 public:
  Client(const Engine& engine, const MicroBatches& next, std::int64_t micro_batches)
      : engine_(engine), next_(next), batches_(micro_batches) {}

  void load(int chunk, int slot, std::int64_t k) override {
    k += first_;
    engine_.load(*engine_.chunks_[chunk]->stage, slot, batch(k));
  }
  const MicroBatch& batch(std::int64_t k) {
    for (; given_ <= k; ++given_) batches_[given_] = next_(given_);
    return batches_[k];
  }
  std::int64_t micro_batches() const { return static_cast<std::int64_t>(batches_.size()); }
  void before_gradients(int chunk, std::int64_t k) override {
    engine_.chunks_[chunk]->gradients->begin_pass(k + 1 == micro_batches());
  }
  void losses_ready(int chunk, int slot, std::int64_t) override {
    // Tensor-parallel ranks all have the same losses.
    if (engine_.place_.tp > 0) return;
    totals.add(engine_.read_loss(*engine_.chunks_[chunk]->stage, slot));
  }

  // What the runner calls micro-batch 0 is this one.
  void start_at(std::int64_t first) { first_ = first; }

  Totals totals;

 private:
  const Engine& engine_;
  const MicroBatches& next_;
  std::vector<MicroBatch> batches_;
  std::int64_t given_ = 0, first_ = 0;
};

Engine::Engine(const Config& config, const BuildOptions& build, const StageOptions& stage,
               RankOf rank)
    : mesh_(degrees_of(config.parallel, rank.size)),
      rank_(rank.rank),
      place_(mesh_.place_of(rank.rank)),
      placement_(placement_of(config.parallel)),
      schedule_kind_(schedule_kind(config.parallel)),
      build_(build_on(build, config, mesh_, rank_)),
      states_(state_options(config.parallel, mesh_, rank_, splits_backward(schedule_kind_))),
      layers_(assign_layers(config.model.num_layers, placement_, config.parallel.stage_layers)),
      batch_(build.batch),
      seq_(build.seq > 0 ? build.seq : config.model.seq_length),
      seed_(static_cast<std::uint64_t>(config.run.seed)),
      model_(config.model),
      order_head_(config.model.family == "bert" && config.model.order_head),
      zero_(static_cast<int>(config.parallel.zero)) {
  for (const std::int64_t n : micro_batch_counts(config, rank.size, mesh_.degrees().dp()))
    buffers_.join(buffers_of(schedule(n), schedule_report(n), place_.pp));

  slots_ = std::make_unique<SlotMemory>(buffers_.slots);
  std::vector<Stage*> stages;
  for (int c = 0; c < placement_.chunks; ++c) {
    auto chunk = std::make_unique<Chunk>();
    chunk->number = placement_.stage(place_.pp, c);
    StageDefinition definition = define(chunk->number, seq_);
    chunk->layout = std::make_unique<StateLayout>(definition, states_);
    StageOptions options = stage;
    options.slot_memory = slots_.get();
    options.late_slots = buffers_.chunks[c].late_slots;
    options.split_weight_grad = states_.split_weight_grad;
    options.parameter_windows = chunk->layout->parameters_in_windows();
    options.gradient_windows = chunk->layout->gradients_in_windows();
    chunk->stage = std::make_unique<Stage>(std::move(definition), options);
    for (const std::int64_t length : Curriculum(config).lengths()) {
      if (length < seq_) chunk->stage->reserve(define(chunk->number, length));
    }
    chunk->parameters = std::make_unique<Parameters>(*chunk->stage, *chunk->layout);
    chunk->gradients = std::make_unique<Gradients>(*chunk->stage, *chunk->layout);
    chunk->optimizer = std::make_unique<Optimizer>(
        *chunk->stage, *chunk->layout, *chunk->parameters, *chunk->gradients, config.optimizer);
    chunk->hooks = std::make_unique<StateHooks>(*chunk->parameters, *chunk->gradients);
    chunk->stage->set_hooks(chunk->hooks.get());
    stages.push_back(chunk->stage.get());
    chunks_.push_back(std::move(chunk));
  }
  runner_ = std::make_unique<PipelineRunner>(stages, placement_, place_.pp, buffers_);
}

Engine::~Engine() = default;

StageDefinition Engine::define(int number, std::int64_t seq) const {
  BuildOptions build = build_;
  build.seq = seq;
  build.part = {layers_[number].begin, layers_[number].count(), number == 0,
                number == placement_.stages() - 1};
  StageDefinition definition = build_model(model_, build);
  StateLayout(definition, states_);  // the same for all lengths: it gives parameters their places
  return definition;
}

void Engine::set_length(std::int64_t seq) {
  if (seq == seq_) return;
  seq_ = seq;
  for (auto& chunk : chunks_) {
    chunk->stage->reshape(define(chunk->number, seq));
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
  return plan;
}

void Engine::allocate(Transport* transport) {
  TRIREME_CHECK(transport ? transport->place().size == mesh_.size() : mesh_.size() == 1);
  groups_ = transport ? make_groups(mesh_, zero_, *transport) : make_lone_groups();
  if (groups_.tensor->size() > 1) tensor_group_ = std::make_unique<TensorGroup>(*groups_.tensor);
  slots_->allocate();
  for (auto& chunk : chunks_) {
    chunk->stage->allocate(tensor_group_.get());
    chunk->parameters->allocate(*groups_.gather);
    chunk->gradients->allocate(groups_);
    chunk->optimizer->allocate();
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

bool Engine::speaks_for(int chunk, const ParameterSpec& spec) const {
  const bool tied_copy = spec.name == word_table && chunks_[chunk]->number > 0;
  return !tied_copy && (spec.split || place_.tp == 0) &&
         mesh_.index_in_group(rank_, replicate_axes(zero_)) == 0;
}

const Schedule& Engine::schedule(std::int64_t micro_batches) {
  schedule_report(micro_batches);
  return schedules_.at(micro_batches).schedule;
}

const ScheduleReport& Engine::schedule_report(std::int64_t micro_batches) {
  const auto known = schedules_.find(micro_batches);
  if (known != schedules_.end()) return known->second.report;
  ScheduleRequest request;
  request.kind = schedule_kind_;
  request.ranks = placement_.ranks;
  request.chunks = placement_.chunks;
  request.micro_batches = static_cast<int>(micro_batches);
  Planned planned{with_early_receives(make_schedule(request)), {}};
  planned.report = check_schedule(planned.schedule);
  return schedules_.emplace(micro_batches, std::move(planned)).first->second.report;
}

double Engine::gradient_traffic(int chunk, std::int64_t micro_batches) const {
  return chunks_[chunk]->gradients->traffic(micro_batches, mesh_.group_size(replicate_axes(zero_)));
}

double Engine::parameter_traffic(int chunk, std::int64_t micro_batches) const {
  return chunks_[chunk]->parameters->traffic(micro_batches);
}

void Engine::load(Stage& stage, int slot, const MicroBatch& batch) const {
  const std::int64_t rows = batch_ * seq_;
  const auto copy = [&](BatchInput which, const void* from, std::int64_t bytes) {
    void* to = stage.batch(slot, which);
    if (to && from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return to && !from;
  };
  TRIREME_CHECK(!copy(BatchInput::tokens, batch.tokens, rows * 4));
  TRIREME_CHECK(!copy(BatchInput::sample_ids, batch.sample_ids, batch_ * 8));
  TRIREME_CHECK(!copy(BatchInput::first_visible, batch.first_visible, rows * 4));
  if (copy(BatchInput::positions, batch.positions, rows * 4)) {
    auto* positions = static_cast<std::int32_t*>(stage.batch(slot, BatchInput::positions));
    for (std::int64_t r = 0; r < rows; ++r) positions[r] = static_cast<std::int32_t>(r % seq_);
  }
  load_losses(stage, slot, batch);
  if (model_.family == "bert") load_bert(stage, slot, batch);
}

// Targets and weights of all rows, or of those alone that are predicted.
void Engine::load_losses(Stage& stage, int slot, const MicroBatch& batch) const {
  auto* targets = static_cast<std::int32_t*>(stage.batch(slot, BatchInput::targets));
  if (!targets) return;
  TRIREME_CHECK(batch.targets);
  auto* weights = static_cast<float*>(stage.batch(slot, BatchInput::loss_weights));
  auto* predicted = static_cast<std::int32_t*>(stage.batch(slot, BatchInput::predicted_rows));
  const std::int64_t rows = batch_ * seq_;
  const auto weight = [&](std::int64_t r) {
    return batch.loss_weights ? batch.loss_weights[r] : 1;
  };
  if (!predicted) {
    std::copy_n(batch.targets, rows, targets);
    for (std::int64_t r = 0; r < rows; ++r) weights[r] = weight(r);
    return;
  }
  const std::int64_t room = stage.batch_bytes(BatchInput::targets) / 4;
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (weight(r) == 0) continue;
    TRIREME_CHECK(count < room);
    predicted[count] = static_cast<std::int32_t>(r);
    targets[count] = batch.targets[r];
    weights[count++] = weight(r);
  }
  std::fill(predicted + count, predicted + room, 0);
  std::fill(targets + count, targets + room, 0);
  std::fill(weights + count, weights + room, 0.f);
}

void Engine::load_bert(Stage& stage, int slot, const MicroBatch& batch) const {
  const auto fill = [&](BatchInput which, std::int64_t count, const std::int32_t* from,
                        auto&& value) {
    auto* to = static_cast<std::int32_t*>(stage.batch(slot, which));
    for (std::int64_t i = 0; to && i < count; ++i)
      to[i] = from ? from[i] : static_cast<std::int32_t>(value(i));
  };
  const auto none = [](std::int64_t) { return 0; };
  fill(BatchInput::segments, batch_ * seq_, batch.segments, none);
  fill(BatchInput::lengths, batch_, batch.lengths, [&](std::int64_t) { return seq_; });
  fill(BatchInput::order_labels, batch_, batch.order_labels, none);
  fill(BatchInput::first_rows, batch_, nullptr, [&](std::int64_t b) { return b * seq_; });
  if (auto* weights = static_cast<float*>(stage.batch(slot, BatchInput::order_weights)))
    std::fill_n(weights, batch_, order_weight_);
}

namespace {

// Adds losses, each times its weight, and the weights.
void add_losses(const Stage& stage, int slot, ResultOutput result, const float* weights,
                std::int64_t count, double& loss, double& total) {
  const void* losses = stage.result(slot, result);
  for (std::int64_t i = 0; i < count; ++i) {
    if (weights && weights[i] == 0) continue;
    const double weight = weights ? weights[i] : 1;
    loss += weight * (stage.definition().compute == DType::f64
                          ? static_cast<const double*>(losses)[i]
                          : static_cast<double>(static_cast<const float*>(losses)[i]));
    total += weight;
  }
}

}  // namespace

LossSum Engine::read_loss(const Stage& stage, int slot) const {
  LossSum sum;
  add_losses(stage, slot, ResultOutput::token_loss,
             static_cast<const float*>(stage.batch(slot, BatchInput::loss_weights)),
             stage.batch_bytes(BatchInput::loss_weights) / 4, sum.loss, sum.tokens);
  if (order_head_)
    add_losses(stage, slot, ResultOutput::order_loss, nullptr, batch_, sum.order_loss, sum.samples);
  return sum;
}

void Engine::weigh_order_loss(Client& client) {
  double tokens = 0;
  for (std::int64_t k = 0; k < client.micro_batches(); ++k) {
    const float* weights = client.batch(k).loss_weights;
    for (std::int64_t r = 0; r < batch_ * seq_; ++r) tokens += weights ? weights[r] : 1;
  }
  if (place_.tp > 0 || place_.pp > 0) tokens = 0;  // these ranks see what another one counts
  groups_.world->all_reduce(&tokens, 1, DType::f64, Reduction::sum, "predicted tokens").wait();
  const std::int64_t samples = batch_ * client.micro_batches() * mesh_.degrees().dp();
  order_weight_ = static_cast<float>(tokens / static_cast<double>(samples));
}

// Gradients are scaled by the tokens that the step has at most; what loss weights take away is made
// up for at the end, so that no micro-batch needs to know the others.
double Engine::nominal_tokens(const StepInput& input) const {
  return static_cast<double>(batch_ * seq_ * input.micro_batches * mesh_.degrees().dp());
}

StepBlock Engine::block_of(const StepInput& input) const {
  return {seed_, input.step, input.loss_scale / nominal_tokens(input)};
}

void Engine::run_micro_batches(const StepInput& input, Client& client, Observer* observer) {
  for (auto& chunk : chunks_) {
    chunk->gradients->begin_step(input.loss_scale, input.micro_batches * mesh_.degrees().dp());
  }
  const Schedule& actions = schedule(input.micro_batches);
  TRIREME_CHECK(
      buffers_.hold(buffers_of(actions, schedule_report(input.micro_batches), place_.pp)));
  runner_->run(actions, client, block_of(input), observer);
}

Engine::Chunk* Engine::chunk_of_stage(int stage) const {
  for (const auto& chunk : chunks_) {
    if (chunk->number == stage) return chunk.get();
  }
  return nullptr;
}

int Engine::find_parameter(const Chunk& chunk, const char* name) const {
  const auto& parameters = chunk.stage->definition().parameters;
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    if (parameters[p].name == name) return p;
  }
  fail("internal error: stage {} has no {}", chunk.number, name);
}

void Engine::reduce_gradients() {
  for (auto& chunk : chunks_) chunk->gradients->reduce();
  if (model_.tie_embeddings && placement_.stages() > 1) {
    Chunk* first = chunk_of_stage(0);
    Chunk* last = chunk_of_stage(placement_.stages() - 1);
    if (first && last) {
      first->gradients->tie_with(*last->gradients, find_parameter(*first, word_table),
                                 find_parameter(*last, word_table));
    } else if (Chunk* end = first ? first : last) {
      end->gradients->tie_across(*groups_.embedding, find_parameter(*end, word_table));
    }
  }
  for (auto& chunk : chunks_) chunk->gradients->complete();
}

StepResult Engine::train_step(const StepInput& input, const MicroBatches& next,
                              Observer* observer) {
  Client client(*this, next, input.micro_batches);
  if (order_head_) weigh_order_loss(client);
  run_micro_batches(input, client, observer);
  reduce_gradients();

  Totals& totals = client.totals;
  for (int c = 0; c < chunks(); ++c) {
    chunks_[c]->optimizer->add_squares(
        totals.squares, [&](const ParameterSpec& spec) { return speaks_for(c, spec); });
    totals.overflows += chunks_[c]->gradients->overflowed();
  }
  totals.stops = input.stop && input.stop();
  totals.saves = input.saving && input.saving();
  totals.sum(*groups_.world);

  StepResult result;
  result.loss = totals.losses();
  result.stop = totals.stops > 0;
  result.saving = totals.saves > 0;
  const double unscale =
      result.loss.tokens > 0 ? nominal_tokens(input) / result.loss.tokens / input.loss_scale : 0;
  result.grad_norm = std::sqrt(totals.squares.value()) * unscale;
  result.finite =
      totals.overflows == 0 && std::isfinite(result.loss.loss) && std::isfinite(result.grad_norm);
  if (!result.finite) return result;
  double scale = unscale;
  if (input.clip_grad > 0) scale *= std::min(1.0, input.clip_grad / (result.grad_norm + 1e-6));
  for (auto& chunk : chunks_) chunk->optimizer->step(input.lr, scale);
  return result;
}

LossSum Engine::evaluate(std::int64_t micro_batches, const MicroBatches& next) {
  Client client(*this, next, micro_batches);
  for (std::int64_t k = 0; k < micro_batches; ++k) {
    client.start_at(k);
    runner_->evaluate(client, {seed_, 0, 1});
  }
  client.totals.sum(*groups_.world);
  return client.totals.losses();
}

std::string Engine::explain_not_finite(const StepInput& input, const MicroBatches& next) {
  NotFiniteSearch search;
  for (const auto& chunk : chunks_) search.look_at_masters(*chunk->optimizer, *chunk->stage);
  Client client(*this, next, input.micro_batches);
  run_micro_batches(input, client, &search);
  for (auto& chunk : chunks_) chunk->gradients->reduce();  // completes what is under way
  return search.first_of_all(*groups_.world);
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
