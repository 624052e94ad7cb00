// Writes settings under the names of Megatron's optimizer and of its schedule, which Megatron
// compares with its flags.
#include "importers/megatron/saved_run.h"

#include <algorithm>

#include "config/optimizers.h"
#include "importers/megatron/flags/flags.h"

namespace trireme::megatron {
namespace {

void set(TorchDict& dict, const char* key, TorchValue value) {
  const auto same = std::ranges::find(dict, key, &TorchItem::key);
  if (same != dict.end()) {
    same->value = std::move(value);
  } else {
    dict.push_back({key, std::move(value)});
  }
}

std::int64_t optimizer_steps(const CheckpointState& state) {
  const auto at = state.counters.find("optimizer_steps");
  return at == state.counters.end() ? state.step : at->second;
}

std::int64_t scheduled_samples(const CheckpointState& state) {
  const auto at = state.counters.find("scheduled_samples");
  return at == state.counters.end() ? state.consumed_samples : at->second;
}

TorchValue count_or_none(std::int64_t count) {
  return count > 0 ? TorchValue{count} : TorchValue{};
}

TorchDict run_arguments(TorchDict args, const Config& config, const CheckpointState& state) {
  const OptimizerConfig& o = config.optimizer;
  for (const auto& [key, value] :
       TorchDict{{"iteration", {state.step}},
                 {"consumed_train_samples", {state.consumed_samples}},
                 {"global_batch_size", count_or_none(config.train.global_batch_size)},
                 {"micro_batch_size", {config.train.micro_batch_size}},
                 {"train_iters", count_or_none(config.train.iters)},
                 {"train_samples", count_or_none(config.train.samples)},
                 {"lr", {o.lr}},
                 {"min_lr", {o.min_lr}},
                 {"weight_decay", {o.weight_decay}},
                 {"adam_beta1", {o.beta1}},
                 {"adam_beta2", {o.beta2}},
                 {"adam_eps", {o.eps}},
                 {"clip_grad", {o.clip_grad}},
                 {"bf16", {config.run.precision == Precision::bf16}},
                 {"fp16", {config.run.precision == Precision::fp16}},
                 {"use_distributed_optimizer", {true}},
                 {"no_save_optim", {false}},
                 {"expert_model_parallel_size", {config.parallel.ep}}})
    set(args, key.c_str(), value);
  return args;
}

// A parameter group, with the settings of torch.optim.AdamW and of Transformer Engine's FusedAdam.
TorchDict group(const OptimizerConfig& o, std::int64_t steps, bool decays, bool expert_parallel) {
  return {{"wd_mult", {decays ? 1.0 : 0.0}},
          {"lr_mult", {1.0}},
          {"is_expert_parallel", {expert_parallel}},
          {"is_decoupled_lr", {false}},
          {"default_config", {true}},
          {"max_lr", {o.lr}},
          {"min_lr", {o.min_lr}},
          {"lr", {o.lr}},
          {"betas", {TorchTuple{{{o.beta1}, {o.beta2}}}}},
          {"eps", {o.eps}},
          {"weight_decay", {decays ? o.weight_decay : 0.0}},
          {"bias_correction", {true}},
          {"amsgrad", {false}},
          {"maximize", {false}},
          {"foreach", {}},
          {"capturable", {false}},
          {"differentiable", {false}},
          {"fused", {}},
          {"decoupled_weight_decay", {o.name == OptimizerKind::adamw}},
          {"step", {steps}}};
}

// The same settings in the forms of two optimizers: at the top that of fp32 runs, and inside of
// "optimizer" the distributed one's.
TorchValue optimizer_of(const TorchList& groups, std::int64_t steps) {
  const TorchDict state{{"common_step", {static_cast<double>(steps)}}};
  return {TorchDict{{"state", {state}},
                    {"param_groups", {groups}},
                    {"optimizer", {TorchDict{{"param_groups", {groups}}}}},
                    {"param_state_sharding_type", {std::string("fully_reshardable")}}}};
}

// With expert parallelism, Megatron has an optimizer of its own for experts, whose matrices all
// decay.
TorchValue optimizers(const Config& config, std::int64_t steps) {
  const OptimizerConfig& o = config.optimizer;
  TorchList dense{{group(o, steps, true, false)}, {group(o, steps, false, false)}};
  const TorchValue one = optimizer_of(dense, steps);
  if (config.model.moe.num_experts == 0 || config.parallel.ep == 1) return one;
  const TorchList experts{{group(o, steps, true, true)}};
  return {TorchNumbered{{one, optimizer_of(experts, steps)}}};
}

std::string style_of(DecayStyle style) {
  const std::string ours = fmt::format("{}", style);
  for (const auto& [theirs, key] : choices(*find_flag("--lr-decay-style")))
    if (key == ours) return std::string(theirs);
  return ours;
}

// Lengths in samples, as Megatron counts them.
TorchDict schedule_of(const Config& config, const CheckpointState& state) {
  const OptimizerConfig& o = config.optimizer;
  const TrainConfig& train = config.train;
  const auto length = [&](std::int64_t iters, std::int64_t samples) {
    return train.samples > 0 ? samples : iters * train.global_batch_size;
  };
  const std::int64_t whole = length(train.iters, train.samples);
  std::int64_t decay = length(o.decay_iters, o.decay_samples);
  if (decay == 0) decay = whole;
  const TorchValue warmup = o.warmup_fraction > 0
                                ? TorchValue{o.warmup_fraction * static_cast<double>(decay)}
                                : TorchValue{length(o.warmup_iters, o.warmup_samples)};
  return {{"max_lr", {o.lr}},
          {"lr_warmup_steps", warmup},
          {"num_steps", {scheduled_samples(state)}},
          {"lr_decay_style", {style_of(o.decay_style)}},
          {"lr_decay_steps", {decay}},
          {"min_lr", {o.min_lr}},
          {"start_wd", {o.weight_decay}},
          {"end_wd", {o.weight_decay}},
          {"wd_incr_style", {std::string("constant")}},
          {"wd_incr_steps", {whole}}};
}

TorchDict common(TorchDict arguments, std::int64_t iteration) {
  set(arguments, "ckpt_format", {std::string("torch_dist")});
  set(arguments, "no_save_rng", {true});
  const TorchDict content{{"distrib_optim_sharding_type", {std::string("fully_reshardable")}},
                          {"distrib_optim_fully_reshardable_mem_efficient", {false}},
                          {"singleton_local_shards", {false}},
                          {"chained_optim_avoid_prefix", {true}}};
  return {{"args", {TorchObject{"argparse", "Namespace", std::move(arguments)}}},
          {"checkpoint_version", {3.0}},
          {"iteration", {iteration}},
          {"num_floating_point_operations_so_far", {std::int64_t{0}}},
          {"content_metadata", {content}}};
}

}  // namespace

TorchDict saved_release(const TorchDict& arguments) {
  TorchDict args = arguments;
  set(args, "no_save_optim", {true});
  return common(std::move(args), 0);
}

TorchDict saved_run(const TorchDict& arguments, const Config& config,
                    const CheckpointState& state) {
  TorchDict out = common(run_arguments(arguments, config, state), state.step);
  out.push_back({"optimizer", optimizers(config, optimizer_steps(state))});
  out.push_back({"opt_param_scheduler", {schedule_of(config, state)}});
  return out;
}

std::string unsaid_of_run(const Config& config) {
  std::string unsaid;
  const auto add = [&](const char* text) {
    if (!unsaid.empty()) unsaid += "; ";
    unsaid += text;
  };
  if (config.optimizer.decay_tokens > 0)
    add("Megatron has no schedule by tokens (--override-opt-param-scheduler starts with its flags)");
  if (config.run.precision == Precision::fp16)
    add("its loss scale begins with Megatron's initial one");
  return unsaid;
}

}  // namespace trireme::megatron
