// Engines on ranks that are threads, which together train a tiny model in any layout.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "comm/local.h"
#include "named.h"
#include "optim/loss_scale.h"
#include "train/checkpoints/slices.h"
#include "train/engine/engine.h"
#include "train/run/setup.h"

namespace trireme {

constexpr std::int64_t seq = 8, batch = 2, vocab = 37;

// `family`: "experts" is Llama with a dense layer, then layers of experts that drop; "latent" is
// DeepSeek-V3 with experts that are balanced over the batch; "residual" has residual experts; "mtp
// FAMILY" predicts two further tokens; "parts" is Nemotron-H, whose layers are one part each.
inline Config config_of(const std::string& precision, std::int64_t micro_batches = 4,
                        const std::string& family = "gpt") {
  Config config;
  if (family.starts_with("mtp ")) {
    config = config_of(precision, micro_batches, family.substr(4));
    config.model.mtp_layers = 2;
    return config;
  }
  ModelConfig& m = config.model;
  const bool delta = family.starts_with("delta"), parts = family.starts_with("parts");
  const bool mamba = family.starts_with("mamba") || parts;
  const bool llama = family == "experts" || family == "latent" || family == "residual" ||
                     family == "longrope" || family == "llama4" || delta || mamba;
  m.family = llama ? "llama" : family;
  m.num_layers = 4;
  m.hidden_size = 16;
  m.num_heads = 4;
  m.seq_length = m.max_positions = seq;
  m.vocab_size = vocab;
  m.hidden_dropout = 0.1;
  if (family == "experts") {
    m.moe.num_experts = 8;
    m.moe.score = RouterScore::sigmoid;
    m.moe.expert_bias = true;
    m.moe.bias_update_rate = 0.01;
    m.moe.ffn_hidden_size = 24;
    m.moe.first_layer = 1;
    m.moe.aux_loss_coeff = 0.01;
    m.moe.z_loss_coeff = 0.001;
    m.moe.capacity_factor = 1.25;
  }
  if (delta) {  // as Qwen3-Next
    m.hidden_dropout = 0;
    m.num_kv_heads = 2;
    m.qk_norm = m.attention_gate = true;
    m.zero_centered_norms = m.zero_centered_qk_norms = true;
    m.linear_layers = {0, 1, 3};
    m.linear_key_heads = 2;
    m.linear_value_heads = 4;
    m.linear_key_head_dim = 3;
    m.linear_value_head_dim = 5;
  }
  if (mamba) {  // as Granite 4
    m.hidden_dropout = 0;
    m.num_kv_heads = 2;
    m.position = PositionEncoding::none;
    m.residual_multiplier = 0.3;
    m.linear_layers = {0, 1, 3};
    m.linear_kind = LinearKind::mamba2;
    m.linear_key_heads = 2;
    m.linear_value_heads = 4;
    m.linear_key_head_dim = 3;
    m.linear_value_head_dim = 5;
    m.linear_conv_bias = true;
  }
  if (parts) {
    m.hidden_dropout = 0.1;
    m.activation = MlpActivation::squared_relu;
    m.linear_layers = {0, 3};
    m.mlp_layers = {2};
  }
  if (family == "parts experts") {
    m.mlp_layers = m.moe.layers = {2};
    m.moe.score = RouterScore::sigmoid;
    m.moe.expert_bias = true;
  }
  if (family == "mamba experts" || family == "parts experts") {
    m.moe.num_experts = 8;
    m.moe.ffn_hidden_size = 24;
    m.moe.shared_ffn_hidden_size = 16;
    m.moe.aux_loss_coeff = 0.01;
  }
  if (family == "delta experts") {
    m.moe.num_experts = 8;
    m.moe.ffn_hidden_size = 24;
    m.moe.shared_ffn_hidden_size = 16;
    m.moe.shared_gate = true;
    m.moe.aux_loss_coeff = 0.01;
  }
  if (family == "latent" || family == "residual") {
    m.hidden_dropout = family == "latent" ? 0 : 0.1;
    m.moe.num_experts = 8;
    m.moe.ffn_hidden_size = 24;
    m.moe.first_layer = 1;
    m.moe.aux_loss = BalanceScope::global;
    m.moe.aux_loss_coeff = 0.01;
    m.moe.shared_ffn_hidden_size = 16;
    m.moe.residual = family == "residual";
  }
  if (family == "latent") {
    m.kv_lora_rank = 6;
    m.q_lora_rank = 10;
    m.qk_nope_head_dim = 4;
    m.qk_rope_head_dim = 2;
    m.moe.score = RouterScore::sigmoid;
    m.moe.expert_bias = true;
    m.moe.num_groups = 4;
    m.moe.top_groups = 2;
  }
  if (family == "llama4") {
    m.num_kv_heads = 2;
    m.attention_window = 3;
    m.window_layers = {0, 1, 2};
    m.window_chunks = m.qk_l2_norm = true;
    m.no_rope_layers = {3};
    m.no_rope_query_beta = 0.5;
    m.no_rope_query_length = 4;
    m.moe.num_experts = 8;
    m.moe.top_k = 1;
    m.moe.ffn_hidden_size = m.moe.shared_ffn_hidden_size = 24;
    m.moe.first_layer = 1;
    m.moe.layer_interval = 2;
    m.moe.score = RouterScore::sigmoid;
    m.moe.normalize_weights = false;
    m.moe.scale_inputs = true;
  }
  if (family == "longrope") {  // as Phi-4-mini, beyond the original length
    m.rope_percent = 0.5;
    m.rope_scaling = RopeScaling::longrope;
    m.rope_original_length = seq / 2;
    m.rope_scaling_factor = 2;
    m.rope_short_factors = {1};
    m.rope_long_factors = {3};
  }
  resolve(m);
  config.run.precision = named(precision);
  config.train.micro_batch_size = batch;
  config.train.global_batch_size = batch * micro_batches;
  config.parallel.numerics = Numerics::exact;
  config.optimizer.lr = 0.01;
  return config;
}

// Returns micro-batch k of the whole step, tokens ordered by position.
inline Batch samples(std::int64_t k) {
  Batch samples(batch, seq);
  for (std::int64_t b = 0; b < batch; ++b) {
    samples.sample_ids[b] = k * batch + b;
    for (std::int64_t t = 0; t < seq; ++t) {
      const auto token = [&](std::int64_t at) {
        return static_cast<std::int32_t>((7 * k + 3 * b + at * at) % vocab);
      };
      samples.tokens[b * seq + t] = token(t);
      samples.targets[b * seq + t] = token(t + 1);
    }
  }
  return samples;
}

using Weights = std::map<std::string, std::vector<double>>;

struct Result {
  std::vector<double> losses, norms;
  std::vector<bool> finite;
  Weights weights;

  std::int64_t skipped() const { return std::count(finite.begin(), finite.end(), false); }
};

// Runs this rank's share of a step: data-parallel ranks take micro-batches alternately.
inline StepResult step(Engine& engine, int rank, const Config& config, int number,
                       double loss_scale = 1) {
  const int dp = engine.mesh().degrees().dp(), index = engine.mesh().dp_index(rank);
  const std::int64_t micro_batches = config.train.global_batch_size / batch;
  std::vector<Batch> own;
  for (std::int64_t k = 0; k < micro_batches / dp; ++k) own.push_back(samples(k * dp + index));
  StepInput input;
  input.step = static_cast<std::uint64_t>(number);
  input.micro_batches = micro_batches / dp;
  input.lr = config.optimizer.lr;
  input.clip_grad = 1;
  input.loss_scale = loss_scale;
  return engine.train_step(input, [&](std::int64_t k) { return &own[k]; });
}

// Collects the masters and moments that this rank owns, at their places in the whole tensors.
inline void collect(Engine& engine, Weights& weights) {
  for (int c = 0; c < engine.chunks(); ++c) {
    const auto slices = saved_slices(engine.stage(c), engine.optimizer(c),
                                     [&](const Parameter& p) { return engine.owns(c, p.spec); });
    for (const SourceSlice& slice : slices) {
      auto& whole = weights[slice.name];
      whole.resize(static_cast<std::size_t>(slice.tensor.count()),
                   std::numeric_limits<double>::quiet_NaN());
      slice.access(0, slice.bytes(), [&](const std::byte* data) {
        const auto value = [&](std::int64_t i) -> double {
          double read = 0;
          with_compute_type(slice.dtype, [&]<class T>(T) {
            read = static_cast<double>(static_cast<Acc<T>>(reinterpret_cast<const T*>(data)[i]));
          });
          return read;
        };
        for (const Run& run : overlap(slice.tensor, slice.region, Region::whole(slice.tensor)))
          for (std::int64_t i = 0; i < run.count; ++i) whole[run.dst + i] = value(run.src + i);
      });
    }
  }
}

// Creates this rank's engine, with initial weights.
inline std::unique_ptr<Engine> start(const Config& config, Transport& transport,
                                     const StageOptions& stage = {}) {
  const RankOf rank{transport.place().rank, transport.place().size};
  auto engine = std::make_unique<Engine>(config, build_options(config), stage, rank);
  engine->allocate(&transport);
  engine->initialize();
  return engine;
}

inline Result train(const Config& config, int ranks, int steps = 3) {
  Result result;
  std::mutex mutex;
  run_local_ranks(ranks, {.timeout_s = 60}, [&](Transport& transport) {
    const int rank = transport.place().rank;
    const auto engine = start(config, transport, {.poison = true});
    LossScale scale(config.optimizer, config.run.precision);
    for (int s = 0; s < steps; ++s) {
      const StepResult done = step(*engine, rank, config, s, scale.scale());
      scale.update(!done.finite);
      if (rank > 0) continue;
      result.finite.push_back(done.finite);
      result.losses.push_back(done.loss.mean());
      for (const LossSum::Part& part : done.loss.parts)
        if (part.aside) result.losses.push_back(part.mean());
      result.norms.push_back(done.finite ? done.grad_norm : -1);  // NaN equals nothing
      EXPECT_EQ(std::isfinite(done.grad_norm), done.finite);
    }
    const std::lock_guard lock(mutex);
    collect(*engine, result.weights);
  });
  return result;
}

// Returns the relative difference, or the absolute one for values near zero.
inline double difference(double a, double b) {
  return std::abs(a - b) / std::max(1e-3, std::abs(b));
}

// Compares losses, norms and weights.
inline void expect_near(const Result& result, const Result& expected, double tolerance) {
  ASSERT_EQ(result.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_LT(difference(result.losses[i], expected.losses[i]), tolerance);
    EXPECT_LT(difference(result.norms[i], expected.norms[i]), tolerance);
  }
  ASSERT_EQ(result.weights.size(), expected.weights.size());
  for (const auto& [name, values] : expected.weights) {
    const auto& others = result.weights.at(name);
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      worst = std::max(worst, difference(others[i], values[i]));
    EXPECT_LT(worst, tolerance) << name;
  }
}

}  // namespace trireme
