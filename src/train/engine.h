// The engine of a training step: micro-batches in, gradients accumulated, optimiser step out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "config/config.h"
#include "model/transformer.h"
#include "optim/optimizer.h"

namespace trireme {

// One micro-batch as the loader gives it; null where the model has no use for it. rows = batch *
// seq.
struct MicroBatch {
  const std::int32_t* tokens = nullptr;         // [rows]
  const std::int32_t* targets = nullptr;        // [rows]
  const float* loss_weights = nullptr;          // [rows]; null: all one
  const std::int32_t* positions = nullptr;      // [rows]; null: 0, 1, ... in each sequence
  const std::int32_t* first_visible = nullptr;  // [rows]
  const std::int64_t* sample_ids = nullptr;     // [batch]
};

// Sum of loss * weight over tokens, and sum of weights.
struct LossSum {
  double loss = 0;
  double tokens = 0;
  double mean() const { return tokens > 0 ? loss / tokens : 0; }
};

struct StepInput {
  std::uint64_t step = 0;  // number of this step, for random numbers
  std::int64_t micro_batches = 0;
  double lr = 0;
  double clip_grad = 0;  // 0: off
  double loss_scale = 1;
};

struct StepResult {
  LossSum loss;
  double grad_norm = 0;  // before clipping
  bool finite = true;    // false: loss or gradients overflowed and no step was taken
};

class Engine {
 public:
  // Plans everything, allocates nothing. `model` must be resolved and know its vocabulary.
  Engine(const Config& config, const BuildOptions& build, const StageOptions& stage);

  MemoryPlan memory() const;
  void allocate();

  Stage& stage() { return *stage_; }
  const Stage& stage() const { return *stage_; }
  Optimizer& optimizer() { return *optimizer_; }
  const Optimizer& optimizer() const { return *optimizer_; }

  // Runs one step; `next(k)` gives micro-batch k and may be called once for each, in order.
  StepResult train_step(const StepInput& input, const std::function<MicroBatch(std::int64_t)>& next,
                        Observer* observer = nullptr);
  // Loss of one micro-batch without dropout.
  LossSum evaluate(const MicroBatch& batch);

  // Where the first NaN or infinity arises, in words, for the micro-batch that ran last.
  std::string explain_not_finite(const StepInput& input);

 private:
  void load(int slot, const MicroBatch& batch);
  LossSum read_loss(int slot) const;

  BuildOptions build_;
  std::int64_t batch_, seq_;
  std::uint64_t seed_;
  std::unique_ptr<Stage> stage_;
  std::unique_ptr<Optimizer> optimizer_;
  const ModelConfig model_;
};

}  // namespace trireme
