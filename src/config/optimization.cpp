// Checks the optimizer's data types and schedule lengths.
#include "config/optimization.h"

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "config/families.h"

namespace trireme {
namespace {

// Schedule lengths must use the run's unit: iterations or samples.
void check_schedule_units(const TrainConfig& train, const OptimizerConfig& optimizer) {
  const bool by_samples = train.samples > 0;
  const auto check = [&](const char* name, std::int64_t in_iters, std::int64_t in_samples) {
    if ((by_samples ? in_iters : in_samples) == 0) return;
    const char* wrong = by_samples ? "iters" : "samples";
    const char* right = by_samples ? "samples" : "iters";
    fail_input("optimizer.{0}_{1} conflicts with train.{2}: use optimizer.{0}_{2}", name, wrong,
               right);
  };
  check("decay", optimizer.decay_iters, optimizer.decay_samples);
  check("warmup", optimizer.warmup_iters, optimizer.warmup_samples);
  check("wsd_decay", optimizer.wsd_decay_iters, optimizer.wsd_decay_samples);
}

// Checks a decay in tokens, with a warm-up in tokens or in the run's unit.
void check_schedule_in_tokens(const OptimizerConfig& optimizer) {
  if (optimizer.decay_tokens == 0) {
    fail_input("optimizer.warmup_tokens = {} requires optimizer.decay_tokens",
               optimizer.warmup_tokens);
  }
  const auto exclude = [](const char* name, bool given, const char* instead) {
    if (given) fail_input("optimizer.{} conflicts with optimizer.{}", name, instead);
  };
  exclude("decay_iters", optimizer.decay_iters > 0, "decay_tokens");
  exclude("decay_samples", optimizer.decay_samples > 0, "decay_tokens");
  exclude("decay_style = \"wsd\"", optimizer.decay_style == DecayStyle::wsd, "decay_tokens");
  exclude("warmup_fraction", optimizer.warmup_fraction > 0,
          "decay_tokens: use optimizer.warmup_tokens");
  const bool by_count = optimizer.warmup_iters > 0 || optimizer.warmup_samples > 0;
  exclude(optimizer.warmup_iters > 0 ? "warmup_iters" : "warmup_samples",
          by_count && optimizer.warmup_tokens > 0, "warmup_tokens");
  if (optimizer.warmup_tokens >= optimizer.decay_tokens) {
    fail_input(
        "optimizer.warmup_tokens = {} leaves no tokens for the decay, which ends after {}: "
        "shorten the warm-up or increase optimizer.decay_tokens",
        optimizer.warmup_tokens, counted(optimizer.decay_tokens, "token"));
  }
}

void check_schedule(const TrainConfig& train, const OptimizerConfig& optimizer) {
  check_schedule_units(train, optimizer);
  if (optimizer.decay_tokens > 0 || optimizer.warmup_tokens > 0)
    return check_schedule_in_tokens(optimizer);
  const bool by_samples = train.samples > 0;
  const char* unit = by_samples ? "samples" : "iters";
  const std::int64_t warmup = by_samples ? optimizer.warmup_samples : optimizer.warmup_iters;
  const std::int64_t given_decay = by_samples ? optimizer.decay_samples : optimizer.decay_iters;
  const std::int64_t decay = given_decay > 0 ? given_decay
                             : by_samples    ? train.samples
                                             : train.iters;
  if (warmup > 0 && optimizer.warmup_fraction > 0) {
    fail_input(
        "optimizer.warmup_{} = {} and optimizer.warmup_fraction = {} are mutually exclusive: set "
        "only one",
        unit, warmup, optimizer.warmup_fraction);
  }
  if (optimizer.decay_style == DecayStyle::constant) return;
  if (warmup >= decay) {
    fail_input(
        "optimizer.warmup_{0} = {1} leaves no room for the decay, which ends after {2}: shorten "
        "the warm-up or set optimizer.decay_{0} above it",
        unit, warmup, counted(decay, by_samples ? "sample" : "iteration"));
  }
  if (optimizer.decay_style != DecayStyle::wsd) return;
  const std::int64_t anneal = by_samples ? optimizer.wsd_decay_samples : optimizer.wsd_decay_iters;
  const double room =
      static_cast<double>(decay) -
      std::max(static_cast<double>(warmup), optimizer.warmup_fraction * static_cast<double>(decay));
  if (anneal < 1 || static_cast<double>(anneal) > room) {
    fail_input(
        "optimizer.decay_style = \"wsd\" requires optimizer.wsd_decay_{} between 1 and {} (the "
        "decay without the warm-up), found {}",
        unit, static_cast<std::int64_t>(room), anneal);
  }
}

void check_rates(const RunConfig& run, const OptimizerConfig& optimizer) {
  if (optimizer.lr <= 0)
    fail_input("[optimizer] is missing lr: set the learning rate, for example 3e-4");
  const auto check = [&](const char* name, double value) {
    if (value > optimizer.lr) {
      fail_input("optimizer.{} = {} is above optimizer.lr = {}: decrease it", name, value,
                 optimizer.lr);
    }
  };
  check("min_lr", optimizer.min_lr);
  check("warmup_init_lr", optimizer.warmup_init_lr);
  if (run.precision == Precision::fp16 && optimizer.min_loss_scale > optimizer.initial_loss_scale) {
    fail_input("optimizer.min_loss_scale = {} is above optimizer.initial_loss_scale = {}",
               optimizer.min_loss_scale, optimizer.initial_loss_scale);
  }
}

template <class CheckDecay>
void check_muon(const OptimizerConfig& optimizer, const CheckDecay& check_decay) {
  check_decay("muon_momentum", optimizer.muon_momentum);
  if (optimizer.muon_coefficients == MuonCoefficients::quintic && optimizer.muon_steps % 5 != 0) {
    fail_input(
        "optimizer.muon_steps = {} conflicts with optimizer.muon_coefficients = \"quintic\", which "
        "has five sets of coefficients: use {}, or \"simple\"",
        optimizer.muon_steps, (optimizer.muon_steps + 4) / 5 * 5);
  }
}

// Decay rates that round to 1 in fp32, and an epsilon that vanishes next to moments too small for
// fp32, would make steps infinite.
void check_moments(const RunConfig& run, const OptimizerConfig& optimizer) {
  const bool wide = run.precision == Precision::fp64;
  constexpr double largest_decay = 0.9999999;
  const auto check_decay = [&](const char* name, double decay) {
    if (wide || decay <= largest_decay) return;
    fail_input(
        "optimizer.{} = {} is too close to 1 for 32-bit arithmetic: use at most {}, or "
        "run.precision = \"fp64\"",
        name, decay, largest_decay);
  };
  if (optimizer.name == OptimizerKind::sgd) return check_decay("momentum", optimizer.momentum);
  if (optimizer.name == OptimizerKind::lion) {
    check_decay("lion_beta1", optimizer.lion_beta1);
    return check_decay("lion_beta2", optimizer.lion_beta2);
  }
  if (optimizer.name == OptimizerKind::muon) check_muon(optimizer, check_decay);
  check_decay("beta1", optimizer.beta1);
  check_decay("beta2", optimizer.beta2);
  const double smallest_eps = wide ? 1e-150 : 1e-20;
  if (optimizer.eps < smallest_eps) {
    fail_input(
        "optimizer.eps = {} is too small for {}-bit moments, because its square underflows: use at "
        "least {}",
        optimizer.eps, wide ? 64 : 32, smallest_eps);
  }
}

// Checks 16-bit gradient accumulation and moments, which round.
void check_narrow_states(const Config& config) {
  const bool gradients = config.run.gradient_dtype != StateType::fp32;
  const bool moments = config.optimizer.moment_dtype != StateType::fp32;
  if (config.run.precision == Precision::fp64 && (gradients || moments)) {
    fail_input(
        "{} = \"bf16\" conflicts with run.precision = \"fp64\", which keeps everything in "
        "64 bits: use fp32",
        gradients ? "run.gradient_dtype" : "optimizer.moment_dtype");
  }
  if (gradients && config.parallel.exact()) {
    fail_input(
        "run.gradient_dtype = {:?} conflicts with parallel.numerics = {:?}, which sums "
        "gradients as 64-bit integers: use numerics = \"fast\", or gradient_dtype = \"fp32\"",
        config.run.gradient_dtype, config.parallel.numerics);
  }
}

// Thresholds near 0 scale what they bound to nothing, which looks like a run that does not learn.
void check_clipping(const OptimizerConfig& o) {
  const auto check = [](const char* key, double value, double least, const char* what) {
    if (value == 0 || value >= least) return;
    fail_input(
        "optimizer.{} = {} would scale {} to almost nothing: it must be at least {}, or 0 for "
        "no clipping",
        key, value, what, least);
  };
  check("clip_grad", o.clip_grad, 1e-12, "every gradient");
  check("qk_clip_threshold", o.qk_clip_threshold, 1e-4, "the weights of queries and keys");
}

// Keys that scale or decay weights of attention.
void check_attention_weights(const Config& config) {
  const ModelConfig& m = config.model;
  const OptimizerConfig& o = config.optimizer;
  if (o.decay_qk_norms && !m.qk_norm)
    fail_input("optimizer.decay_qk_norms has no effect without model.qk_norm: remove it");
  if (o.qk_clip_threshold == 0) {
    if (o.qk_clip_alpha != OptimizerConfig{}.qk_clip_alpha)
      fail_input("optimizer.qk_clip_alpha = {} has no effect without optimizer.qk_clip_threshold",
                 o.qk_clip_alpha);
    return;
  }
  const auto refuse = [&](bool set, const char* what, const char* why) {
    if (set)
      fail_input("optimizer.qk_clip_threshold = {} conflicts with {}, {}: leave one of them out",
                 o.qk_clip_threshold, what, why);
  };
  refuse(m.qk_norm, "model.qk_norm", "which undoes what scales queries and keys");
  refuse(m.qk_l2_norm, "model.qk_l2_norm", "which undoes what scales queries and keys");
  refuse(m.attention_soft_cap > 0, "model.attention_soft_cap", "which bounds the logits itself");
  refuse(m.position == PositionEncoding::alibi, "model.position = \"alibi\"",
         "whose slopes do not shrink with queries and keys");
  if (family_of(m).architecture != Architecture::decoder)
    fail_input("optimizer.qk_clip_threshold = {} conflicts with model.family = {:?}: remove it",
               o.qk_clip_threshold, m.family);
}

}  // namespace

void check_optimization(const Config& config) {
  check_rates(config.run, config.optimizer);
  check_clipping(config.optimizer);
  check_moments(config.run, config.optimizer);
  check_narrow_states(config);
  check_schedule(config.train, config.optimizer);
  check_attention_weights(config);
}

}  // namespace trireme
