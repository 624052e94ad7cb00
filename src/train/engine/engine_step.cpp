// A training step of the engine: execution of the schedule, sums of losses and gradients over all
// ranks, and the decisions that all ranks share at its end.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "train/engine/engine.h"
#include "train/reports/not_finite.h"

namespace trireme {
namespace {

// Accumulators of a step on the host: first this rank's, then the global sums.
struct Sums {
  StepTotals totals;
  std::vector<std::byte> experts;  // ExpertTotals with its choices; empty without experts
  std::int64_t stops = 0, saves = 0;

  LossSum losses(std::span<const Loss> all) const {
    LossSum sum;
    for (std::size_t i = 0; i < all.size(); ++i)
      sum.parts[i] = {totals.losses[i].sum.value(), totals.losses[i].count.value(),
                      all[i].unit == LossUnit::further_token};
    return sum;
  }
};

// Sums over ranks in one message, without rounding. `losses`: number of losses of the model.
void sum_over_ranks(Sums& sums, std::size_t losses, Communicator& world) {
  StepTotals& t = sums.totals;
  std::vector<ExactSum*> parts = {&t.squares};
  std::span<std::int64_t> choices;
  if (!sums.experts.empty()) {
    auto* const experts = reinterpret_cast<ExpertTotals*>(sums.experts.data());
    parts.insert(parts.end(), {&experts->aux_loss, &experts->z_loss});
    choices = {experts->choices(),
               (sums.experts.size() - sizeof(ExpertTotals)) / sizeof(std::int64_t)};
  }
  for (std::size_t i = 0; i < losses; ++i)
    parts.insert(parts.end(), {&t.losses[i].sum, &t.losses[i].count});
  std::vector<std::int64_t> words;
  for (ExactSum* part : parts) {
    const auto own = part->normalized_words();
    words.insert(words.end(), own.begin(), own.end());
  }
  words.insert(words.end(), choices.begin(), choices.end());
  words.insert(words.end(), {t.overflows, sums.stops, sums.saves});
  world
      .all_reduce(words.data(), static_cast<std::int64_t>(words.size()), DType::i64, Reduction::sum,
                  "totals of a step")
      .wait();
  auto from = words.begin();
  for (ExactSum* part : parts) {
    std::copy_n(from, ExactSum::word_count, part->normalized_words().begin());
    from += ExactSum::word_count;
  }
  std::copy_n(from, choices.size(), choices.begin());
  from += static_cast<std::ptrdiff_t>(choices.size());
  t.overflows = from[0];
  sums.stops = from[1];
  sums.saves = from[2];
}

// Divisor of a step's gradients: the number of predicted tokens. A step without predicted tokens
// trains on its per-sample losses only.
double divisor_of(const LossSum& loss) {
  for (const LossSum::Part& part : loss.parts)
    if (part.count > 0) return part.count;
  return 0;
}

}  // namespace

// Callbacks of the runner into the engine.
class Engine::Client : public PipelineClient {
 public:
  // `finish`: called when all gradient reductions have been started; null: the client evaluates.
  Client(const Engine& engine, const MicroBatches& next, std::int64_t micro_batches,
         std::function<void()> finish)
      : engine_(engine),
        next_(next),
        finish_(std::move(finish)),
        trains_(finish_ != nullptr),
        batches_(micro_batches) {}

  void load(int chunk, int slot, std::int64_t k) override {
    k += first_;
    load_batch(*engine_.chunks_[chunk]->stage, slot, batch(k), engine_.build_.context,
               engine_.further_weights_);
  }
  const Batch& batch(std::int64_t k) {
    for (; given_ <= k; ++given_) batches_[given_] = next_(given_);
    return *batches_[k];
  }
  std::int64_t micro_batches() const { return static_cast<std::int64_t>(batches_.size()); }
  void losses_ready(int chunk, int slot, std::int64_t) override {
    // All tensor-parallel ranks have the same losses.
    if (engine_.place_.tp > 0) return;
    add_losses(*engine_.chunks_[chunk]->stage, slot, engine_.model_, trains_, engine_.totals());
  }
  void step() override { finish_(); }

  // Sets the micro-batch that the runner calls number 0.
  void start_at(std::int64_t first) { first_ = first; }

 private:
  const Engine& engine_;
  const MicroBatches& next_;
  const std::function<void()> finish_;
  const bool trains_;
  std::vector<const Batch*> batches_;
  std::int64_t given_ = 0, first_ = 0;
};

void Engine::weigh_losses(Client& client) {
  std::vector<double> predicted(1 + static_cast<std::size_t>(model_.mtp_layers));
  const bool counts =
      place_.tp == 0 && place_.cp == 0 && place_.pp == 0;  // other ranks have duplicates or none
  for (std::int64_t k = 0; counts && k < client.micro_batches(); ++k) {
    const std::vector<float>& weights = client.batch(k).loss_weights;
    for (std::int64_t r = 0; r < std::ssize(weights); ++r)
      for (std::int64_t depth = 0; depth < std::ssize(predicted); ++depth)
        if (r % seq_ >= depth) predicted[depth] += weights[r];
  }
  groups_.world
      ->all_reduce(predicted.data(), std::ssize(predicted), DType::f64, Reduction::sum,
                   "predicted tokens")
      .wait();
  const double tokens = predicted[0];
  // Gradients are divided by the number of next tokens; further ones have means of their own.
  further_weights_.clear();
  for (std::size_t depth = 1; depth < predicted.size(); ++depth) {
    const double mean = predicted[depth] > 0 ? tokens / predicted[depth] : 0;
    further_weights_.push_back(mean * model_.mtp_loss_scale /
                               static_cast<double>(model_.mtp_layers));
  }
  const std::int64_t samples = build_.batch * client.micro_batches() * mesh_.degrees().dp();
  sample_weight_ = tokens > 0 ? tokens / static_cast<double>(samples) : 1;
  // Runs in other precisions have always rounded this value, and must keep their bits.
  if (build_.compute != DType::f64) sample_weight_ = static_cast<float>(sample_weight_);
}

// Gradients are scaled by the maximum number of tokens of the step, and corrected for loss weights
// at the end, so that a micro-batch needs no information about the others.
double Engine::nominal_tokens(const StepInput& input) const {
  return static_cast<double>(build_.batch * seq_ * input.micro_batches * mesh_.degrees().dp());
}

void Engine::write_block() {
  device_.write(block(), sizeof(StepBlock),
                [&](std::byte* host) { std::memcpy(host, &step_block_, sizeof step_block_); });
}

void Engine::clear_totals() {
  device_.queue().fill(totals(), 0, sizeof(StepTotals));
  if (expert_bytes() > 0) device_.queue().fill(expert_totals(), 0, expert_bytes());
  if (score_bytes() > 0) device_.queue().fill(largest_scores(), 0, score_bytes());
}

std::int64_t Engine::expert_bytes() const {
  const std::int64_t experts = model_.moe.num_experts;
  if (experts == 0) return 0;
  return align_up(static_cast<std::int64_t>(
      sizeof(ExpertTotals) + counted_layers() * (experts + 1) * sizeof(std::int64_t)));
}

std::int64_t Engine::score_bytes() const {
  if (optimizer_.qk_clip_threshold == 0) return 0;
  return align_up(counted_layers() * model_.num_heads * static_cast<std::int64_t>(sizeof(double)));
}

// Those of layers only: Megatron-Core does not clip modules of multi-token prediction.
std::vector<double> Engine::read_largest_scores() {
  std::vector<double> read(static_cast<std::size_t>(model_.num_layers * model_.num_heads));
  const auto count = std::ssize(read);
  device_.read(
      largest_scores(), count * static_cast<std::int64_t>(sizeof(double)),
      [&](const std::byte* host) { std::memcpy(read.data(), host, read.size() * sizeof(double)); });
  groups_.world
      ->all_reduce(read.data(), count, DType::f64, Reduction::max, "largest attention logits")
      .wait();
  return read;
}

// The modules of multi-token prediction count as one more layer.
std::int64_t Engine::counted_layers() const {
  return model_.num_layers + (model_.mtp_layers > 0 ? 1 : 0);
}

std::vector<std::byte> Engine::read_expert_totals() {
  std::vector<std::byte> read(static_cast<std::size_t>(expert_bytes()));
  if (read.empty()) return read;
  device_.read(expert_totals(), expert_bytes(),
               [&](const std::byte* host) { std::memcpy(read.data(), host, read.size()); });
  return read;
}

ExpertLoad Engine::load_of(const std::vector<std::byte>& totals, std::int64_t samples) const {
  ExpertLoad load;
  if (totals.empty()) return load;
  std::vector<std::byte> copy = totals;
  auto* const sums = reinterpret_cast<ExpertTotals*>(copy.data());
  load.aux_loss = sums->aux_loss.value() / static_cast<double>(samples);
  load.z_loss = sums->z_loss.value() / static_cast<double>(samples);
  for (std::int64_t layer = 0; layer < counted_layers(); ++layer) {
    const std::int64_t experts = model_.moe.experts_in(std::min(layer, model_.num_layers - 1));
    if (experts == 0) continue;
    const std::span<const std::int64_t> kept(sums->choices() + layer * (model_.moe.num_experts + 1),
                                             static_cast<std::size_t>(experts));
    std::int64_t sum = 0, largest = 0;
    for (const std::int64_t count : kept) {
      sum += count;
      largest = std::max(largest, count);
    }
    const double mean = static_cast<double>(sum) / static_cast<double>(experts);
    load.imbalance.push_back(sum > 0 ? static_cast<double>(largest) / mean : 0);
    load.dropped += kept.data()[experts];
  }
  return load;
}

StepTotals Engine::read_totals() {
  StepTotals read;
  device_.read(totals(), sizeof read,
               [&](const std::byte* host) { std::memcpy(&read, host, sizeof read); });
  return read;
}

void Engine::run_micro_batches(const StepInput& input, Client& client, Observer* observer) {
  step_block_ = {};
  step_block_.seed = seed_;
  step_block_.step = input.step;
  step_block_.loss_scale = input.loss_scale;
  step_block_.grad_scale = input.loss_scale / nominal_tokens(input);
  step_block_.sample_scale = sample_weight_ * step_block_.grad_scale;
  if (expert_bytes() > 0) {
    step_block_.experts = expert_totals();
    step_block_.most_experts = model_.moe.num_experts;
  }
  if (score_bytes() > 0) {
    step_block_.largest_scores = largest_scores();
    step_block_.score_heads = model_.num_heads;
  }
  write_block();
  clear_totals();
  std::int64_t summands = input.micro_batches * mesh_.degrees().dp();
  if (build_.exact_block > 0) summands *= build_.batch * seq_ / build_.exact_block;
  if (build_.tensor.leaves > 0) summands *= build_.tensor.local_leaves();
  summands *= 1 + model_.mtp_layers;  // whose modules use the word tables too
  for (auto& chunk : chunks_) chunk->gradients->begin_step(block(), summands, &totals()->overflows);
  const PlannedSchedule& planned = schedule(input.micro_batches);
  TRIREME_CHECK(buffers_.hold(buffers_of(planned, place_.pp)));
  runner_->run(planned.schedule, client, block(), observer);
}

Engine::Chunk* Engine::chunk_of_stage(int stage) const {
  for (const auto& chunk : chunks_) {
    if (chunk->number == stage) return chunk.get();
  }
  return nullptr;
}

int Engine::find_parameter(const Chunk& chunk, const std::string& name) const {
  const auto& parameters = chunk.stage->definition().parameters;
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    if (parameters[p].name == name) return p;
  }
  fail("internal error: stage {} has no {}", chunk.number, name);
}

void Engine::finish_gradients() {
  for (auto& chunk : chunks_) chunk->gradients->finish();
  if ((model_.tie_embeddings || model_.mtp_layers > 0) && placement_.stages() > 1) {
    Chunk* first = chunk_of_stage(0);
    Chunk* last = chunk_of_stage(placement_.stages() - 1);
    if (first && last) {
      first->gradients->tie_with(*last->gradients, find_parameter(*first, states_.tied),
                                 find_parameter(*last, states_.tied));
    } else if (Chunk* end = first ? first : last) {
      end->gradients->tie_across(*groups_.embedding, find_parameter(*end, states_.tied));
    }
  }
  for (auto& chunk : chunks_) chunk->gradients->complete();
}

StepResult Engine::train_step(const StepInput& input, const MicroBatches& next,
                              Observer* observer) {
  StepResult result;
  Client client(*this, next, input.micro_batches, [&] { result = update(input); });
  if (losses_.size() > 1 || model_.moe.has_losses()) weigh_losses(client);
  for (auto& chunk : chunks_) chunk->optimizer->expect_step();
  run_micro_batches(input, client, observer);
  return result;
}

// Ends a step: totals over all ranks, then clipping and the optimizer.
StepResult Engine::update(const StepInput& input) {
  finish_gradients();
  for (int c = 0; c < chunks(); ++c) {
    chunks_[c]->optimizer->add_squares(&totals()->squares, [&](const ParameterSpec& spec) {
      return spec.counts == ParameterSpec::Counts::nothing && owns(c, spec);
    });
  }
  Sums sums{read_totals(), read_expert_totals(), input.stop && input.stop(),
            input.saving && input.saving()};
  sum_over_ranks(sums, losses_.size(), *groups_.world);

  StepResult result;
  result.loss = sums.losses(losses_);
  result.experts = load_of(sums.experts, build_.batch * input.micro_batches * mesh_.degrees().dp());
  result.stop = sums.stops > 0;
  result.saving = sums.saves > 0;
  const double divisor = divisor_of(result.loss);
  const double unscale = divisor > 0 ? nominal_tokens(input) / divisor / input.loss_scale : 0;
  // Integer sums that overflowed look finite but are meaningless.
  result.grad_norm = sums.totals.overflows > 0 ? std::numeric_limits<double>::quiet_NaN()
                                               : std::sqrt(sums.totals.squares.value()) * unscale;
  result.finite = std::isfinite(result.loss.words().sum) && std::isfinite(result.grad_norm);
  if (!result.finite || (input.takes && !input.takes(result))) return result;
  double scale = unscale;
  if (input.clip_grad > 0) scale *= std::min(1.0, input.clip_grad / (result.grad_norm + 1e-6));
  step_block_.lr = input.lr;
  step_block_.update_scale = scale;
  optimizer().describe_next_step(step_block_);
  write_block();
  std::optional<QkClip> clip;
  if (score_bytes() > 0) clip.emplace(optimizer_, model_, read_largest_scores());
  if (clip) result.largest_score = clip->largest();
  for (auto& chunk : chunks_)
    chunk->optimizer->step(block(), clip && clip->scales() ? &*clip : nullptr);
  result.taken = true;
  return result;
}

LossSum Engine::evaluate(std::int64_t micro_batches, const MicroBatches& next) {
  Client client(*this, next, micro_batches, nullptr);
  clear_totals();
  for (std::int64_t k = 0; k < micro_batches; ++k) {
    client.start_at(k);
    runner_->evaluate(client);
  }
  Sums sums{read_totals(), {}};
  const std::span<const Loss> losses = evaluated_losses(model_);
  sum_over_ranks(sums, losses.size(), *groups_.world);
  runner_->finish_evaluation();
  return sums.losses(losses);
}

void Engine::observe(const StepInput& input, const MicroBatches& next, Observer& observer) {
  Client client(*this, next, input.micro_batches, [&] {
    for (auto& chunk : chunks_) chunk->gradients->finish();  // waits for pending reductions
  });
  run_micro_batches(input, client, &observer);
}

std::string Engine::explain_not_finite(const StepInput& input, const MicroBatches& next) {
  NotFiniteSearch search(device_, &step_memory_.as<StepMemory>()->first_not_finite);
  for (const auto& chunk : chunks_) search.look_at_masters(*chunk->optimizer, *chunk->stage);
  observe(input, next, search);
  return search.first_of_all(*groups_.world);
}

}  // namespace trireme
