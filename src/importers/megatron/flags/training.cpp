// Flags of the run: batches, length, optimizer, learning rate, precision.
#include "importers/megatron/flags/make.h"

namespace trireme::megatron {
namespace {

constexpr const char* kRemoved = "no longer supported by Megatron";
constexpr const char* kNoCollector = "there is no garbage collector";
constexpr const char* kSchedulerOfCheckpoint =
    "no effect unless --load is another run's folder; then it is rejected";
constexpr const char* kFp8Gradients = "weight gradients are also computed in fp8";
constexpr const char* kFp8Delayed =
    "delayed scaling is not supported: use --fp8-format with --fp8-recipe";
constexpr const char* kFp8History = "applies to delayed scaling, which is not supported";
constexpr const char* kOneRate = "all parameters have the same learning rate";
constexpr const char* kNoSkipping = "iterations cannot be skipped";
constexpr const char* kNoCooldown =
    "use --lr-decay-style WSD for schedules with a constant phase and a cool-down";
constexpr const char* kStates = "run.gradient_dtype and optimizer.moment_dtype set the data types";
constexpr const char* kMasters = "master weights are fp32 in Trireme";
constexpr const char* kGradients = "for bf16, set run.gradient_dtype in the configuration";
constexpr const char* kMoments = "for bf16, set optimizer.moment_dtype in the configuration";

}  // namespace

std::vector<Flag> training_flags() {
  using enum Kind;
  std::vector<Flag> flags = {
      required("--micro-batch-size", integer, "train.micro_batch_size"),
      to_key("--global-batch-size", integer, "train.global_batch_size", "0",
             "0: micro-batch size times data-parallel degree"),
      refused("--batch-size", integer, "renamed by Megatron: use --micro-batch-size"),
      to_key("--rampup-batch-size", integers, "train.rampup_batch_size", "",
             "initial batch size, increment, samples; requires --train-samples, as in Megatron"),
      to_key("--step-batch-size-schedule", text, "train.batch_size_schedule", "",
             "THRESHOLD:SIZE pairs, thresholds in tokens; requires --train-samples, conflicts with "
             "--global-batch-size"),
      refused("--decrease-batch-size-if-needed", none,
              "a batch size that is not divisible is an error: remove it"),
      to_key("--train-iters", integer, "train.iters"),
      to_key("--train-samples", integer, "train.samples"),
      to_key("--exit-interval", integer, "train.exit_interval"),
      to_key("--exit-duration-in-mins", number, "train.exit_duration_minutes"),
      ignored("--exit-signal-handler", none, "a signal always saves before the run ends"),
      to_key("--eval-interval", integer, "train.eval_interval", "1000"),
      rule("--eval-iters", text, "train.eval_iters",
           "absent: `100`; below 0: no evaluation, as in Megatron"),
      rule("--eval-global-batch-size", integer, "train.eval_iters",
           "as many iterations of --global-batch-size as contain the same number of samples"),
      refused("--skip-train", none, "use `trireme eval`"),
      ignored("--test-mode", none, "belongs to Megatron's own tests"),
      to_key("--seed", integer, "run.seed", "1234"),
      refused("--data-parallel-random-init", none, "all ranks start with the same weights"),
      chooses("--optimizer", "optimizer.name",
              "adam=adamw sgd=sgd lion=lion muon=muon dist_muon=muon", "adamw",
              "Megatron's adam uses decoupled weight decay; dist_muon implies "
              "--use-distributed-optimizer; a note names the matrices that muon treats "
              "differently"),
      rule("--no-decoupled-weight-decay", none, "optimizer.name", "`adam`, with --optimizer adam"),
      to_key("--adam-beta1", number, "optimizer.beta1", "0.9"),
      to_key("--adam-beta2", number, "optimizer.beta2", "0.999"),
      to_key("--adam-eps", number, "optimizer.eps", "1e-8"),
      to_key("--sgd-momentum", number, "optimizer.momentum", "0.9"),
      rule("--lion-beta1", number, "optimizer.lion_beta1", "absent with lion: `0.95`"),
      rule("--lion-beta2", number, "optimizer.lion_beta2", "absent with lion: `0.98`"),
      rule("--muon-momentum", number, "optimizer.muon_momentum", "absent with muon: `0.9`"),
      rule("--muon-nesterov", none, "optimizer.muon_nesterov", "absent with muon: `false`"),
      rule("--muon-use-nesterov", none, "optimizer.muon_nesterov", "an older name"),
      rule("--muon-num-ns-steps", integer, "optimizer.muon_steps", "absent with muon: `5`"),
      rule("--muon-coefficient-type", choice, "optimizer.muon_coefficients",
           "absent with muon: `quintic`", "simple=simple quintic=quintic"),
      rule("--muon-scale-mode", choice, "optimizer.muon_scale", "absent with muon: `spectral`",
           "spectral=spectral unit_rms_norm=unit_rms shape_scaling=original"),
      rule("--muon-extra-scale-factor", number, "optimizer.muon_scale_factor",
           "0.2 with spectral is match_rms"),
      ignored("--muon-fp32-matmul-prec", text,
              "Newton-Schulz iterations use bf16 in bf16 runs, otherwise full precision"),
      ignored(
          "--muon-tp-mode", text,
          "matrices are always unsharded, as with duplicated; blockwise is rejected with tensor "
          "parallelism"),
      refused("--muon-no-split-qkv", none, "q, k and v are always separate matrices"),
      refused("--muon-scalar-optimizer", text, "parameters that Muon does not handle use AdamW",
              "adam"),
      to_key("--weight-decay", number, "optimizer.weight_decay", "0.01"),
      rule("--apply-wd-to-qk-layernorm", none, "optimizer.decay_qk_norms",
           "`true`, with --qk-layernorm"),
      rule("--no-weight-decay-cond-type", choice, "optimizer.decay_qk_norms",
           "the older name of --apply-wd-to-qk-layernorm", "apply_wd_to_qk_layernorm=true"),
      rule("--qk-clip", none, "optimizer.qk_clip_threshold",
           "100 unless --qk-clip-threshold is given"),
      rule("--qk-clip-threshold", number, "optimizer.qk_clip_threshold", "with --qk-clip"),
      rule("--qk-clip-alpha", number, "optimizer.qk_clip_alpha", "with --qk-clip"),
      refused("--weight-decay-incr-style", text, "weight decay is constant over a run", "constant"),
      to_key("--clip-grad", number, "optimizer.clip_grad", "1.0"),
      turns("--no-check-for-nan-in-loss-and-grad", "train.check_nan", "false", "true"),
      ignored("--check-for-nan-in-loss-and-grad", none, "train.check_nan is on by default"),
      ignored("--calculate-per-token-loss", none,
              "tokens always have equal weight; required by BERT and --eod-mask-loss"),
      refused("--random-ltd", none, "random layer-token dropping is not supported"),
      rule("--recompute-granularity", choice, "parallel.recompute", "absent: `none`",
           "full selective"),
      rule("--recompute-activations", none, "parallel.recompute", "`selective`"),
      rule("--checkpoint-activations", none, "parallel.recompute", "`full`; old name"),
      rule("--activations-checkpoint-method", choice, "parallel.recompute",
           "old form of --recompute-granularity full --recompute-method", "uniform block"),
      rule("--activations-checkpoint-num-layers", integer, "parallel.recompute_layers",
           "old name of --recompute-num-layers"),
      ignored("--profile-backward", none, "use train.trace_steps"),
      rule("--recompute-method", choice, "parallel.recompute_layers",
           "uniform: all layers, one at a time; block: the first --recompute-num-layers layers of "
           "each stage",
           "uniform block"),
      rule("--recompute-num-layers", integer, "parallel.recompute_layers",
           "with uniform the number of layers per group, which is always one in Trireme"),
      rule("--checkpoint-num-layers", integer, "parallel.recompute_layers",
           "old name of --recompute-num-layers with uniform"),
      ignored("--recompute-modules", texts,
              "selective recomputation chooses modules automatically"),
      ignored("--deterministic-mode", none, "the same layout always gives the same bits"),
      ignored("--train-sync-interval", integer,
              "local updates without synchronization are not supported"),
      rule("--distribute-saved-activations", none, "parallel.distribute_saved_activations",
           "with full recomputation of all or some layers; no effect with --sequence-parallel"),
      rule("--distribute-checkpointed-activations", none, "parallel.distribute_saved_activations",
           "old name of --distribute-saved-activations"),
      rule("--cpu-offloading-num-layers", integer, "offload.activations, offload.activation_layers",
           "`host`, for the first N layers of each stage; no effect on CPUs"),
      rule("--checkpoint-in-cpu", none, "offload.activations", "`host`; no effect on CPUs"),
      rule("--optimizer-cpu-offload", none, "offload.optimizer",
           "`host`: all states, which the GPU updates in blocks; no effect on CPUs"),
      ignored("--optimizer-offload-fraction", number,
              "--optimizer-cpu-offload offloads all states"),
      ignored("--rerun-mode", text,
              "train.check_nan names the op and layer of the first NaN, and train.guard_interval "
              "detects silent data corruption"),
  };
  add_refused(flags, "weight decay is constant over a run",
              "--start-weight-decay=X --end-weight-decay=X");
  add_ignored(flags, "train.spike_policy sets the response to a loss spike",
              "--check-for-spiky-loss --check-for-large-grads");
  add_refused(flags, kNoSkipping,
              "--iterations-to-skip=N... --train-range-to-skip=N... --train-iters-to-skip=TEXT...");
  add_refused(flags, "use `trireme generate`", "--inference --ds-inference");
  add_ignored(flags, "Ctrl-C, SIGTERM or SIGUSR1 save and stop a run",
              "--kill-switch-path=TEXT --kill-switch-file=TEXT");
  add_ignored(flags, "memory is planned before the run",
              "--split-transformers --scattered-embeddings --memory-centric-tiled-linear "
              "--tile-factor=N --contigious-checkpointing "
              "--synchronize-each-layer --empty-unused-memory-level=N");
  add_ignored(flags, "only with --optimizer-cpu-offload",
              "--use-torch-optimizer-for-cpu-offload --overlap-cpu-optimizer-d2h-h2d "
              "--no-pin-cpu-grads --no-pin-cpu-params");
  add_refused(flags,
              "either all saved activations of a layer are offloaded or none: use "
              "--cpu-offloading-num-layers",
              "--fine-grained-activation-offloading --offload-modules=TEXT... "
              "--activation-offload-fraction=X --cpu-offloading-weights");
  add_ignored(flags, "layers are offloaded while others compute",
              "--min-offloaded-tensor-size=N --delay-offload-until-cuda-graph "
              "--delta-offload-bytes-across-pp-ranks=N "
              "--fine-grained-offloading-max-inflight-offloads=N --cpu-offloading-double-buffering "
              "--cpu-offloading-retain-pinned-cpu-buffers --cpu-offloading "
              "--cpu-offloading-activations");
  add_ignored(flags, "Trireme chooses optimizer kernels itself",
              "--muon-use-syrk --optimizer-cuda-graph");
  add_ignored(flags, kNoCollector, "--manual-gc --manual-gc-interval=N --no-manual-gc-eval");
  add_ignored(flags, "a restarted run always resumes",
              "--adlr-autoresume --adlr-autoresume-interval=N");
  add_refused(flags, kNoSkipping, "--result-rejected-tracker-filename=TEXT");
  add_refused(flags, "schedules in phases are not supported", "--phase-transition-iterations=TEXT");
  add_ignored(flags, "a signal always saves before the run ends",
              "--exit-signal=TEXT --exit-signal-handler-for-dataloader "
              "--exit-signal-handler-for-training");
  add_ignored(flags, kNoCollector, "--disable-manual-gc-eval");
  add_ignored(flags, "evaluations do not change weights; they run every train.eval_interval steps",
              "--start-eval-at-iter=N");
  add_ignored(flags, "evaluations use the micro-batch size of training",
              "--eval-micro-batch-size=N");
  add_ignored(flags, "has an effect only with --multiple-validation-sets",
              "--validation-set-names=TEXT...");
  add_ignored(flags, "not written", "--dump-param-to-param-group-map=TEXT");
  return flags;
}

std::vector<Flag> learning_rate_flags() {
  using enum Kind;
  std::vector<Flag> flags = {
      required("--lr", number, "optimizer.lr"),
      to_key("--min-lr", number, "optimizer.min_lr", "0.0"),
      chooses("--lr-decay-style", "optimizer.decay_style",
              "constant linear cosine inverse-square-root=inverse_sqrt WSD=wsd", "linear"),
      to_key("--lr-decay-iters", integer, "optimizer.decay_iters"),
      to_key("--lr-decay-samples", integer, "optimizer.decay_samples"),
      to_key("--lr-warmup-iters", integer, "optimizer.warmup_iters"),
      to_key("--lr-warmup-samples", integer, "optimizer.warmup_samples"),
      to_key("--lr-warmup-fraction", number, "optimizer.warmup_fraction", "",
             "as a share of the length of the decay"),
      to_key("--lr-warmup-init", number, "optimizer.warmup_init_lr", "0.0"),
      to_key("--lr-wsd-decay-iters", integer, "optimizer.wsd_decay_iters"),
      to_key("--lr-wsd-decay-samples", integer, "optimizer.wsd_decay_samples"),
      chooses("--lr-wsd-decay-style", "optimizer.wsd_decay_style",
              "exponential linear cosine minus_sqrt", "exponential"),
      refused("--warmup", integer, kRemoved),
      refused("--head-lr-mult", number, kOneRate, "1.0"),
      rule("--use-checkpoint-opt_param-scheduler", none, "checkpoint.load", kSchedulerOfCheckpoint),
      rule("--use-checkpoint-opt-param-scheduler", none, "checkpoint.load", kSchedulerOfCheckpoint),
  };
  add_refused(flags, kOneRate, "--decoupled-lr=X --decoupled-min-lr=X");
  add_refused(flags, kNoCooldown,
              "--lr-constant-tokens=N --lr-constant-fraction=X --lr-cooldown-tokens=N "
              "--lr-cooldown-fraction=X --lr_constant_plus_cooldown");
  add_ignored(flags, "the configuration always takes precedence",
              "--override-opt_param-scheduler --override-lr-scheduler");
  add_ignored(flags, "the configuration always takes precedence", "--override-opt-param-scheduler");
  return flags;
}

std::vector<Flag> precision_flags() {
  using enum Kind;
  std::vector<Flag> flags = {
      rule("--fp16", none, "run.precision", "`fp16`"),
      rule("--bf16", none, "run.precision", "`bf16`; with neither: `fp32`"),
      to_key("--loss-scale", number, "optimizer.loss_scale", "", "absent or 0: dynamic"),
      to_key("--initial-loss-scale", number, "optimizer.initial_loss_scale", "4294967296.0"),
      to_key("--min-loss-scale", number, "optimizer.min_loss_scale", "1.0"),
      to_key("--loss-scale-window", number, "optimizer.loss_scale_window", "1000"),
      to_key("--hysteresis", integer, "optimizer.hysteresis", "2"),
      ignored("--accumulate-allreduce-grads-in-fp32", none,
              "gradients are always accumulated in fp32"),
      ignored("--grad-reduce-in-bf16", none,
              "gradients are reduced in fp32 unless run.gradient_dtype is bf16"),
      ignored("--fp16-lm-cross-entropy", none, "the loss is always computed in fp32"),
      rule("--fp8-format", choice, "fp8.format", "requires --fp8-recipe",
           "e4m3=e4m3 hybrid=hybrid"),
      rule("--fp8-recipe", text, "fp8.recipe, fp8.power_of_2_scales",
           "`tensorwise` or `blockwise`; delayed scaling and mxfp8 are not supported"),
      rule("--first-last-layers-bf16", none, "fp8.first_layers_bf16, fp8.last_layers_bf16", ""),
      rule("--num-layers-at-start-in-bf16", integer, "fp8.first_layers_bf16",
           "absent with --first-last-layers-bf16: `1`"),
      rule("--num-layers-at-end-in-bf16", integer, "fp8.last_layers_bf16",
           "absent with --first-last-layers-bf16: `1`"),
      refused("--fp8-margin", integer, "scales have no margin", "0"),
      refused("--no-fp8-wgrad", none, kFp8Gradients),
      ignored("--fp8-param-gather", none,
              "weights are gathered in the compute data type and quantized to fp8 where they are "
              "used"),
      refused("--fp32-residual-connection", none, "the residual stream uses the compute data type"),
      ignored("--disable-bf16-reduced-precision-matmul", none, "GEMMs accumulate in fp32"),
      ignored("--use-precision-aware-optimizer", none, kStates),
      refused("--megatron-fsdp-main-params-dtype", text, kMasters, "fp32"),
      refused("--megatron-fsdp-main-grads-dtype", text, kGradients, "fp32 auto"),
      refused("--main-grads-dtype", text, kGradients, "fp32"),
      refused("--main-params-dtype", text, kMasters, "fp32"),
      refused("--exp-avg-dtype", text, kMoments, "fp32"),
      refused("--exp-avg-sq-dtype", text, kMoments, "fp32"),
  };
  add_ignored(flags, "the softmax is always computed in fp32",
              "--attention-softmax-in-fp32 --apply-query-key-layer-scaling "
              "--no-query-key-layer-scaling");
  add_refused(flags, kFp8Delayed, "--fp8-e4m3 --fp8-hybrid");
  add_ignored(flags, kFp8History,
              "--fp8-interval=N --fp8-amax-history-len=N --fp8-amax-compute-algo=TEXT");
  add_refused(flags, "fp4 is not supported", "--fp4-format=TEXT");
  add_ignored(flags, "has an effect only with --fp4-format",
              "--fp4-recipe=TEXT --fp4-quantizer-factory=TEXT --fp4-param-gather");
  add_refused(flags, "the data types of all GEMMs are determined by run.precision and [fp8]",
              "--kitchen-config-file=TEXT --kitchen-recipe-number=N "
              "--fp8-quantizer-factory=TEXT --fp8-output-proj --use-kitchen-attention "
              "--te-precision-config-file=TEXT");
  add_ignored(flags, "has an effect only with --use-kitchen-attention",
              "--kitchen-attention-backend=TEXT");
  add_refused(flags, kFp8Gradients, "--disable-fp8-wgrad");
  add_ignored(flags, "the loss is always computed in fp32", "--output-logit-dtype=TEXT");
  add_ignored(flags, "gradients are summed in fp32 unless run.gradient_dtype is bf16",
              "--ddp-reduce-scatter-with-fp32-accumulation "
              "--gtp-remat-reduce-scatter-with-fp32-accumulation "
              "--ddp-param-name-patterns-for-fp32-local-accumulation=TEXT... "
              "--megatron-fsdp-grad-comm-dtype=TEXT");
  return flags;
}

}  // namespace trireme::megatron
