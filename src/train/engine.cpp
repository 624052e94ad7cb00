// One process, one stage: forward and backward of each micro-batch in turn, then the optimiser.
#include "train/engine.h"

#include <cmath>
#include <cstring>

#include "ops/support.h"

namespace trireme {

Engine::Engine(const Config& config, const BuildOptions& build, const StageOptions& stage)
    : build_(build),
      batch_(build.batch),
      seq_(build.seq > 0 ? build.seq : config.model.seq_length),
      seed_(static_cast<std::uint64_t>(config.run.seed)),
      model_(config.model) {
  stage_ = std::make_unique<Stage>(build_model(config.model, build), stage);
  optimizer_ = std::make_unique<Optimizer>(*stage_, config.optimizer);
}

MemoryPlan Engine::memory() const {
  MemoryPlan plan = stage_->memory();
  plan.append(optimizer_->memory());
  return plan;
}

void Engine::allocate() {
  stage_->allocate();
  optimizer_->allocate();
  fill_constants(*stage_, model_, seq_);
}

void Engine::load(int slot, const MicroBatch& batch) {
  const std::int64_t rows = batch_ * seq_;
  const auto copy = [&](BatchInput which, const void* from, std::int64_t bytes) {
    void* to = stage_->batch(slot, which);
    if (to && from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return to && !from;
  };
  TRIREME_CHECK(!copy(BatchInput::tokens, batch.tokens, rows * 4));
  TRIREME_CHECK(!copy(BatchInput::targets, batch.targets, rows * 4));
  TRIREME_CHECK(!copy(BatchInput::sample_ids, batch.sample_ids, batch_ * 8));
  TRIREME_CHECK(!copy(BatchInput::first_visible, batch.first_visible, rows * 4));
  if (copy(BatchInput::loss_weights, batch.loss_weights, rows * 4)) {
    auto* weights = static_cast<float*>(stage_->batch(slot, BatchInput::loss_weights));
    for (std::int64_t r = 0; r < rows; ++r) weights[r] = 1;
  }
  if (copy(BatchInput::positions, batch.positions, rows * 4)) {
    auto* positions = static_cast<std::int32_t*>(stage_->batch(slot, BatchInput::positions));
    for (std::int64_t r = 0; r < rows; ++r) positions[r] = static_cast<std::int32_t>(r % seq_);
  }
}

LossSum Engine::read_loss(int slot) const {
  const auto* weights = static_cast<const float*>(stage_->batch(slot, BatchInput::loss_weights));
  const void* losses = stage_->result(slot, ResultOutput::token_loss);
  LossSum sum;
  for (std::int64_t r = 0; r < batch_ * seq_; ++r) {
    const double loss = stage_->definition().compute == DType::f64
                            ? static_cast<const double*>(losses)[r]
                            : static_cast<double>(static_cast<const float*>(losses)[r]);
    if (weights[r] == 0) continue;
    sum.loss += loss * weights[r];
    sum.tokens += weights[r];
  }
  return sum;
}

StepResult Engine::train_step(const StepInput& input,
                              const std::function<MicroBatch(std::int64_t)>& next,
                              Observer* observer) {
  // Gradients are scaled by the tokens that the step has at most; what loss weights take away is
  // made up for at the end, so that no micro-batch needs to know the others.
  const double nominal_tokens = static_cast<double>(batch_ * seq_ * input.micro_batches);
  StepBlock block{seed_, input.step, input.loss_scale / nominal_tokens};
  StepResult result;
  for (std::int64_t k = 0; k < input.micro_batches; ++k) {
    load(0, next(k));
    stage_->forward(0, block, observer);
    stage_->backward(0, block, k == 0, observer);
    const LossSum loss = read_loss(0);
    result.loss.loss += loss.loss;
    result.loss.tokens += loss.tokens;
    if (!std::isfinite(loss.loss)) {
      result.finite = false;
      return result;
    }
  }
  const double unscale =
      result.loss.tokens > 0 ? nominal_tokens / result.loss.tokens / input.loss_scale : 0;
  result.grad_norm = optimizer_->gradient_norm() * unscale;
  if (!std::isfinite(result.grad_norm)) {
    result.finite = false;
    return result;
  }
  double scale = unscale;
  if (input.clip_grad > 0) scale *= std::min(1.0, input.clip_grad / (result.grad_norm + 1e-6));
  optimizer_->step(input.lr, scale);
  return result;
}

LossSum Engine::evaluate(const MicroBatch& batch) {
  load(0, batch);
  stage_->evaluate({seed_, 0, 1});
  return read_loss(0);
}

namespace {

// Index of the first value that is not finite, or -1; -1 too for integers.
std::int64_t first_bad(const Value& value, const void* data) {
  const std::int64_t count = value.shape.count();
  switch (value.dtype) {
    case DType::f64:
      return cpu::kernels<double>().first_not_finite(static_cast<const double*>(data), count);
    case DType::f32:
      return cpu::kernels<float>().first_not_finite(static_cast<const float*>(data), count);
    case DType::bf16:
      return cpu::kernels<bf16>().first_not_finite(static_cast<const bf16*>(data), count);
    case DType::f16:
      return cpu::kernels<f16>().first_not_finite(static_cast<const f16*>(data), count);
    default:
      return -1;
  }
}

class NotFiniteSearch : public Observer {
 public:
  void after(const Instruction& instruction) override {
    if (!found.empty()) return;
    for (int i = 0; i < Node::max_outputs; ++i) {
      const ValueId id = instruction.node->outputs[i];
      if (id == no_value) continue;
      const Value& value = instruction.graph->value(id);
      const std::int64_t index = first_bad(value, instruction.out[i]);
      if (index < 0) continue;
      const std::string where =
          instruction.layer >= 0 ? fmt::format(" of layer {}", instruction.layer) : "";
      found = fmt::format("{}{} ({}), output {} {} {}, element {}",
                          definition(instruction.node->op).name, where,
                          instruction.node->phase == Phase::forward ? "forward" : "backward", i,
                          name_of(value.dtype), value.shape.text(), index);
      return;
    }
  }
  std::string found;
};

}  // namespace

std::string Engine::explain_not_finite(const StepInput& input) {
  const auto& parameters = stage_->definition().parameters;
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    const Value as_value{
        stage_->definition().compute, Role::parameter, p, parameters[p].spec.shape, 0, 0};
    const std::int64_t index = first_bad(as_value, stage_->parameter(p));
    if (index >= 0)
      return fmt::format("parameter {} {}, element {}", parameters[p].name, as_value.shape.text(),
                         index);
  }
  NotFiniteSearch search;
  const StepBlock block{
      seed_, input.step,
      input.loss_scale / static_cast<double>(batch_ * seq_ * input.micro_batches)};
  stage_->forward(0, block, &search);
  if (search.found.empty()) stage_->backward(0, block, true, &search);
  return search.found.empty() ? "the sum of the gradients of several micro-batches" : search.found;
}

}  // namespace trireme
