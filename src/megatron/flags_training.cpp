// Flags of the run: batches, length, optimizer, learning rate, precision.
#include "megatron/flags_make.h"

namespace trireme::megatron {
namespace {

constexpr const char* kRemoved = "Megatron itself no longer takes it";
constexpr const char* kFp8 = "fp8 is not there; leave it out, the run is then in bf16";
constexpr const char* kFp8Detail = "counts with --fp8-format only";
constexpr const char* kFp32States = "states of the optimizer and gradients are fp32 here";

}  // namespace

std::vector<Flag> training_flags() {
  using enum Kind;
  return {
      required("--micro-batch-size", integer, "train.micro_batch_size"),
      to_key("--global-batch-size", integer, "train.global_batch_size", "0",
             "0: micro batch size times data-parallel degree"),
      refused("--batch-size", integer, "Megatron itself renamed it: --micro-batch-size"),
      to_key("--rampup-batch-size", integers, "train.rampup_batch_size", "",
             "first batch size, increment, samples; needs --train-samples, as in Megatron"),
      refused("--decrease-batch-size-if-needed", none,
              "a batch size that does not divide is an error; leave it out"),
      to_key("--train-iters", integer, "train.iters"),
      to_key("--train-samples", integer, "train.samples"),
      to_key("--exit-interval", integer, "train.exit_interval"),
      to_key("--exit-duration-in-mins", number, "train.exit_duration_minutes"),
      ignored("--exit-signal-handler", none, "a signal always saves before the run ends"),
      to_key("--eval-interval", integer, "train.eval_interval", "1000"),
      to_key("--eval-iters", integer, "train.eval_iters", "100"),
      refused("--skip-train", none, "use `trireme eval`"),
      ignored("--test-mode", none, "tests of Megatron itself"),
      to_key("--seed", integer, "run.seed", "1234"),
      refused("--data-parallel-random-init", none, "all ranks begin with the same weights"),
      chooses("--optimizer", "optimizer.name", "adam=adamw sgd=sgd", "adamw",
              "Megatron's adam decays weights apart from the gradient"),
      turns("--no-decoupled-weight-decay", "optimizer.name", "adam", ""),
      to_key("--adam-beta1", number, "optimizer.beta1", "0.9"),
      to_key("--adam-beta2", number, "optimizer.beta2", "0.999"),
      to_key("--adam-eps", number, "optimizer.eps", "1e-8"),
      to_key("--sgd-momentum", number, "optimizer.momentum", "0.9"),
      to_key("--weight-decay", number, "optimizer.weight_decay", "0.01"),
      refused("--weight-decay-incr-style", text, "weight decay stays as it is over a run",
              "constant"),
      refused("--start-weight-decay", number, "weight decay stays as it is over a run"),
      refused("--end-weight-decay", number, "weight decay stays as it is over a run"),
      to_key("--clip-grad", number, "optimizer.clip_grad", "1.0"),
      turns("--no-check-for-nan-in-loss-and-grad", "train.check_nan", "false", "true"),
      ignored("--check-for-nan-in-loss-and-grad", none, "train.check_nan is on unless turned off"),
      ignored("--check-for-spiky-loss", none, "watch loss and grad_norm in metrics.jsonl"),
      ignored("--check-for-large-grads", none, "watch loss and grad_norm in metrics.jsonl"),
      ignored("--calculate-per-token-loss", none, "tokens always weigh equally"),
      refused("--iterations-to-skip", integers, "iterations cannot be skipped"),
      rule("--recompute-granularity", choice, "parallel.recompute", "absent: `none`",
           "full selective"),
      rule("--recompute-activations", none, "parallel.recompute", "`selective`"),
      rule("--checkpoint-activations", none, "parallel.recompute", "`full`; an old name"),
      rule("--recompute-method", choice, "parallel.recompute_layers",
           "uniform: all layers, one at a time; block: the first --recompute-num-layers of a stage",
           "uniform block"),
      rule("--recompute-num-layers", integer, "parallel.recompute_layers",
           "with uniform the size of a group, which is always one layer here"),
      rule("--checkpoint-num-layers", integer, "parallel.recompute_layers",
           "an old name of --recompute-num-layers with uniform"),
      refused("--recompute-modules", texts, "selective recomputation chooses by itself",
              "core_attn"),
      ignored("--distribute-saved-activations", none,
              "--sequence-parallel divides all of them over the tensor-parallel ranks"),
      ignored("--deterministic-mode", none, "the same layout always gives the same bits"),
      ignored("--train-sync-interval", integer, "ranks cannot run apart"),
      ignored("--manual-gc", none, "there is no garbage collector"),
      ignored("--manual-gc-interval", integer, "there is no garbage collector"),
      ignored("--no-manual-gc-eval", none, "there is no garbage collector"),
      ignored("--empty-unused-memory-level", integer, "memory is planned before the run"),
      refused("--optimizer-cpu-offload", none, "states of the optimizer stay where the model is"),
      ignored("--adlr-autoresume", none, "a run that is started again always goes on"),
      ignored("--adlr-autoresume-interval", integer, "a run that is started again always goes on"),
      ignored("--rerun-mode", text, "train.check_nan names the op and layer of the first NaN"),
  };
}

std::vector<Flag> learning_rate_flags() {
  using enum Kind;
  return {
      required("--lr", number, "optimizer.lr"),
      to_key("--min-lr", number, "optimizer.min_lr", "0.0"),
      chooses("--lr-decay-style", "optimizer.decay_style",
              "constant linear cosine inverse-square-root=inverse_sqrt WSD=wsd", "linear"),
      to_key("--lr-decay-iters", integer, "optimizer.decay_iters"),
      to_key("--lr-decay-samples", integer, "optimizer.decay_samples"),
      to_key("--lr-warmup-iters", integer, "optimizer.warmup_iters"),
      to_key("--lr-warmup-samples", integer, "optimizer.warmup_samples"),
      to_key("--lr-warmup-fraction", number, "optimizer.warmup_fraction", "",
             "of the length of the decay"),
      to_key("--lr-warmup-init", number, "optimizer.warmup_init_lr", "0.0"),
      to_key("--lr-wsd-decay-iters", integer, "optimizer.wsd_decay_iters"),
      to_key("--lr-wsd-decay-samples", integer, "optimizer.wsd_decay_samples"),
      chooses("--lr-wsd-decay-style", "optimizer.wsd_decay_style",
              "exponential linear cosine minus_sqrt", "exponential"),
      refused("--warmup", integer, kRemoved),
      refused("--decoupled-lr", number, "one learning rate for all parameters"),
      refused("--decoupled-min-lr", number, "one learning rate for all parameters"),
      ignored("--override-opt_param-scheduler", none, "the configuration always decides"),
      ignored("--override-lr-scheduler", none, "the configuration always decides"),
      refused("--use-checkpoint-opt_param-scheduler", none,
              "the configuration always decides; leave it out and keep the other flags"),
  };
}

std::vector<Flag> precision_flags() {
  using enum Kind;
  return {
      rule("--fp16", none, "run.precision", "`fp16`"),
      rule("--bf16", none, "run.precision", "`bf16`; with neither: `fp32`"),
      to_key("--loss-scale", number, "optimizer.loss_scale", "", "absent or 0: dynamic"),
      to_key("--initial-loss-scale", number, "optimizer.initial_loss_scale", "4294967296.0"),
      to_key("--min-loss-scale", number, "optimizer.min_loss_scale", "1.0"),
      to_key("--loss-scale-window", number, "optimizer.loss_scale_window", "1000"),
      to_key("--hysteresis", integer, "optimizer.hysteresis", "2"),
      ignored("--accumulate-allreduce-grads-in-fp32", none, "gradients always accumulate in fp32"),
      ignored("--grad-reduce-in-bf16", none, "gradients are reduced in fp32, which is no less"),
      ignored("--attention-softmax-in-fp32", none, "the softmax is always computed in fp32"),
      ignored("--apply-query-key-layer-scaling", none, "the softmax is always computed in fp32"),
      ignored("--no-query-key-layer-scaling", none, "the softmax is always computed in fp32"),
      ignored("--fp16-lm-cross-entropy", none, "the loss is always computed in fp32"),
      refused("--fp32-residual-connection", none, "the residual stream has the compute type"),
      ignored("--disable-bf16-reduced-precision-matmul", none, "products accumulate in fp32"),
      ignored("--use-precision-aware-optimizer", none, kFp32States),
      refused("--main-grads-dtype", text, kFp32States, "fp32"),
      refused("--main-params-dtype", text, kFp32States, "fp32"),
      refused("--exp-avg-dtype", text, kFp32States, "fp32"),
      refused("--exp-avg-sq-dtype", text, kFp32States, "fp32"),
      refused("--fp8-format", text, kFp8),
      refused("--fp8-param-gather", none, kFp8),
      ignored("--fp8-recipe", text, kFp8Detail),
      ignored("--fp8-margin", integer, kFp8Detail),
      ignored("--fp8-interval", integer, kFp8Detail),
      ignored("--fp8-amax-history-len", integer, kFp8Detail),
      ignored("--fp8-amax-compute-algo", text, kFp8Detail),
      ignored("--no-fp8-wgrad", none, kFp8Detail),
  };
}

}  // namespace trireme::megatron
