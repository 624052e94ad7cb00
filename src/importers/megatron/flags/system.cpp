// Flags of checkpoints, parallelism and logging, and of libraries that Trireme does not use.
#include "importers/megatron/flags/make.h"

namespace trireme::megatron {
namespace {

constexpr const char* kKernels = "Trireme chooses kernels itself, with the same meaning";
constexpr const char* kOneDispatch = "Trireme has no CUDA graph capture to tune";
constexpr const char* kOverlap = "communication overlaps with computation automatically";
constexpr const char* kBuckets = "communication is split automatically";
constexpr const char* kCheckpointForm = "there is one checkpoint format, which supports any layout";
constexpr const char* kStartup = "ranks are started by MPI or SLURM";
constexpr const char* kWandb =
    "nothing is uploaded; `trireme export-wandb` writes the run for `wandb sync`";
constexpr const char* kTensorBoard = "the contents of TensorBoard's files do not depend on it";
constexpr const char* kTimings = "timings.jsonl contains the times of each step";
constexpr const char* kNvrx = "the run survives being killed: start it again";
constexpr const char* kOther = "an option of DeepSpeed without equivalent in Trireme";
constexpr const char* kLongSequences =
    "chunked attention over one rank's sequence is not supported";
// True as long as the CPU is the only device.
constexpr const char* kHostMemory = "optimizer states are in host memory, like the model";
constexpr const char* kTrace = "train.trace_steps writes a trace of the steps";

}  // namespace

std::vector<Flag> checkpoint_flags() {
  using enum Kind;
  std::vector<Flag> flags = {
      rule("--save", text, "run.dir", "metrics, logs and configuration go there too"),
      to_key("--save-interval", integer, "checkpoint.interval"),
      to_key("--persistent-save-interval", integer, "checkpoint.interval"),
      rule("--load", text, "checkpoint.load",
           "a run always resumes from run.dir; the key is needed only for a different folder"),
      rule("--pretrained-checkpoint", text, "checkpoint.load, checkpoint.finetune",
           "weights to start from"),
      turns("--no-load-optim", "checkpoint.load_optimizer", "false", "true"),
      ignored("--no-load-rng", none, "randomness depends only on run.seed and the step"),
      turns("--finetune", "checkpoint.finetune", "true", "false",
            "loads only the weights of --load"),
      turns("--async-save", "checkpoint.async", "true", "false"),
      refused("--no-load-lr-state", none, "the learning rate depends on the step"),
      refused("--reset-iteration", none, "use --finetune"),
      refused("--universal-checkpoint", none,
              "trireme convert turns the checkpoint into a run, which --load accepts"),
      ignored("--exit-on-missing-checkpoint", none, "checkpoint.load must exist"),
      refused("--use-checkpoint-args", none, "keep the flags, or train from the run's config.toml"),
      refused("--non-persistent-save-interval", integer,
              "use checkpoint.local_interval and checkpoint.local_dir"),
  };
  add_ignored(flags, "checkpoints are always complete", "--no-save-optim --no-save-rng");
  add_refused(flags, "give the checkpoint's folder: --load DIR/step-0001000",
              "--ckpt-step=N --load-tag=TEXT");
  add_refused(flags, "use `trireme convert`",
              "--ckpt-convert-format=TEXT --ckpt-convert-save=TEXT");
  add_ignored(flags, "only with --non-persistent-save-interval",
              "--non-persistent-ckpt-type=TEXT --non-persistent-global-ckpt-dir=TEXT "
              "--non-persistent-local-ckpt-dir=TEXT");
  add_ignored(
      flags, kCheckpointForm,
      "--ckpt-format=TEXT --use-dist-ckpt --dist-ckpt-format=TEXT --auto-detect-ckpt-format "
      "--ckpt-fully-parallel-save --no-ckpt-fully-parallel-save --ckpt-fully-parallel-load "
      "--ckpt-assume-constant-structure --use-persistent-ckpt-worker "
      "--dist-ckpt-strictness=TEXT");
  add_ignored(flags, "has an effect only with --use-checkpoint-args",
              "--use-mp-args-from-checkpoint-args --no-use-tokenizer-model-from-checkpoint-args "
              "--disable-use-tokenizer-model-from-checkpoint-args");
  add_ignored(flags, "not written",
              "--save-params-interval=N --save-activations-interval=N "
              "--save-tokens-per-expert-interval=N --save-wgrads-interval=N "
              "--save-dgrads-interval=N --no-save-tokenizer-assets "
              "--disable-save-tokenizer-assets");
  add_ignored(flags, "checkpoint.keep sets the number of checkpoints to keep; absent: all",
              "--save-retain-interval=N");
  add_ignored(flags, "checkpoints contain the weights in fp32", "--load-main-params-from-ckpt");
  add_refused(flags, "the step is taken from the checkpoint", "--override-ckpt-iteration=N");
  add_ignored(flags, "checksums are always written and verified",
              "--no-ckpt-load-validate-sharding-integrity "
              "--disable-ckpt-load-validate-sharding-integrity --verify-integrity");
  add_ignored(flags, "has an effect only with --non-persistent-save-interval",
              "--non-persistent-local-ckpt-algo=TEXT --replication --replication-jump=N "
              "--replication-factor=N");
  add_ignored(flags, kCheckpointForm,
              "--ckpt-convert-update-legacy-dist-opt-format --async-strategy=TEXT "
              "--async-ckpt-cpu-priority=N --async-ckpt-io-priority=N --async-ckpt-use-cpu-shm "
              "--ckpt-fully-parallel-load-exchange-algo=TEXT "
              "--ckpt-fully-parallel-load-per-rank-objects "
              "--ckpt-fully-parallel-save-process-group=TEXT "
              "--ckpt-fully-parallel-load-process-group=TEXT --ckpt-pg-tensors-cache-path=TEXT "
              "--ckpt-pg-tensors-cache-create --no-strict-fsdp-dtensor-load "
              "--disable-strict-fsdp-dtensor-load --dist-ckpt-save-pre-mcore-014 "
              "--dist-ckpt-optim-fully-reshardable "
              "--distrib-optim-fully-reshardable-mem-efficient --dist-ckpt-workers=N "
              "--ckpt-drop-redundant-extra-state");
  return flags;
}

std::vector<Flag> parallel_flags() {
  using enum Kind;
  std::vector<Flag> flags = {
      to_key("--tensor-model-parallel-size", integer, "parallel.tp", "1"),
      to_key("--pipeline-model-parallel-size", integer, "parallel.pp", "1"),
      to_key("--context-parallel-size", integer, "parallel.cp", "1"),
      to_key("--expert-model-parallel-size", integer, "parallel.ep", "1"),
      rule("--expert-tensor-parallel-size", integer, "parallel.expert_tp",
           "absent, with experts: that of --tensor-model-parallel-size"),
      refused("--model-parallel-size", integer,
              "renamed by Megatron: use --tensor-model-parallel-size"),
      rule("--num-layers-per-virtual-pipeline-stage", integer,
           "parallel.virtual_stages, parallel.schedule",
           "layers / pipeline stages / N chunks on each rank, schedule `interleaved`"),
      rule("--num-virtual-stages-per-pipeline-rank", integer,
           "parallel.virtual_stages, parallel.schedule", "N chunks on each rank"),
      rule("--decoder-first-pipeline-num-layers", integer, "parallel.stage_layers",
           "the other stages share the rest of the layers evenly"),
      rule("--decoder-last-pipeline-num-layers", integer, "parallel.stage_layers",
           "the other stages share the rest of the layers evenly"),
      refused("--pipeline-model-parallel-split-rank", integer, "applies to encoder-decoder models"),
      refused("--encoder-tensor-model-parallel-size", integer, "applies to encoder-decoder models",
              "0"),
      refused("--encoder-pipeline-model-parallel-size", integer,
              "applies to encoder-decoder models", "0"),
      rule("--sequence-parallel", none, "parallel.sequence_parallel",
           "`true` if the tensor-parallel size is above 1, as in Megatron"),
      rule("--use-distributed-optimizer", none, "parallel.zero", "`1`"),
      rule("--use-torch-fsdp2", none, "parallel.zero", "`3`"),
      rule("--use-custom-fsdp", none, "parallel.zero",
           "according to --data-parallel-sharding-strategy"),
      rule("--use-megatron-fsdp", none, "parallel.zero",
           "according to --data-parallel-sharding-strategy"),
      rule("--data-parallel-sharding-strategy", choice, "parallel.zero",
           "has an effect only with --use-custom-fsdp or --use-megatron-fsdp",
           "no_shard=0 optim=1 optim_grads=2 optim_grads_params=3"),
      to_key("--num-distributed-optimizer-instances", integer, "parallel.dp_replicate"),
      ignored("--DDP-impl", text, "there is one implementation"),
      rule("--cp-comm-type", texts, "parallel.cp_attention",
           "`a2a` is `ulysses`, `p2p` is `ring`; `a2a+p2p` and types that differ between layers "
           "are rejected"),
      refused("--hybrid-context-parallel", none, "parallel.cp is the same for all sequences"),
      refused("--hierarchical-context-parallel-sizes", texts,
              "only for --cp-comm-type a2a+p2p, which is not supported"),
      ignored("--use-tp-pp-dp-mapping", none,
              "the rank order is tp, cp, dp, pp; the order affects only network traffic"),
      ignored("--distributed-backend", text, "ranks communicate through MPI"),
      rule("--distributed-timeout-minutes", number, "train.timeout_s",
           "in seconds, with a note; absent: 10 minutes, as in Megatron"),
      ignored("--use-cpu-initialization", none, "initial weights do not depend on the device"),
      ignored("--init-model-with-meta-device", none, "each rank allocates only what it owns"),
  };
  add_refused(flags, "give parallel.stage_layers",
              "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
              "--pipeline-model-parallel-layout=TEXT --pp-partition-method=TEXT "
              "--standalone-embedding-stage");
  add_ignored(flags, kOverlap,
              "--overlap-grad-reduce --overlap-param-gather "
              "--overlap-param-gather-with-optimizer-step --no-overlap-p2p-communication "
              "--overlap-p2p-communication-warmup-flush --tp-comm-overlap "
              "--no-async-tensor-model-parallel-allreduce --defer-embedding-wgrad-compute "
              "--microbatch-group-size-per-virtual-pipeline-stage=N --overlap-p2p-communication "
              "--wgrad-deferral-limit=N --tp-comm-overlap-cfg=TEXT --tp-comm-overlap-rs-dgrad "
              "--tp-comm-bootstrap-backend=TEXT --disable-tp-comm-overlap-ag "
              "--disable-tp-comm-overlap-rs --disable-tp-comm-bulk-dgrad "
              "--disable-tp-comm-bulk-wgrad --disable-tp-comm-split-ag --disable-tp-comm-split-rs");
  add_ignored(flags, kBuckets,
              "--use-nccl-ub --fsdp-double-buffer --fsdp-manual-registration "
              "--suggested-communication-unit-size=N --no-contiguous-buffers-in-local-ddp "
              "--zero-reduce-scatter --zero-contigious-gradients --zero-reduce-bucket-size=N "
              "--zero-allgather-bucket-size=N --ddp-bucket-size=N --ddp-num-buckets=N "
              "--ddp-average-in-collective --ddp-pad-buckets-for-high-nccl-busbw "
              "--no-align-grad-reduce --no-align-param-gather "
              "--no-scatter-gather-tensors-in-pipeline --use-ring-exchange-p2p");
  add_ignored(flags, "replicas of a parameter never differ between ranks",
              "--sync-tp-duplicated-parameters");
  add_ignored(flags, "use train.guard_interval",
              "--check-weight-hash-across-dp-replicas-interval=N");
  add_ignored(flags, kStartup,
              "--local-rank=N --local_rank=N --lazy-mpu-init=TEXT... --disable-gloo-process-groups "
              "--nccl-communicator-config-path=TEXT");
  add_refused(
      flags,
      "belongs to torchrun: start ranks with --nproc N on one machine, or with mpirun or srun on "
      "several, which need no addresses",
      "--nproc_per_node=TEXT --nproc-per-node=TEXT --nnodes=TEXT --node_rank=TEXT "
      "--node-rank=TEXT --master_addr=TEXT --master-addr=TEXT --master_port=TEXT "
      "--master-port=TEXT --rdzv_backend=TEXT --rdzv-backend=TEXT --rdzv_endpoint=TEXT "
      "--rdzv-endpoint=TEXT --rdzv_id=TEXT --rdzv-id=TEXT");
  add_refused(flags, "give parallel.zero = 3", "--tensor-parallel-num-weight-shards=N");
  add_ignored(flags, "has an effect only with --tensor-parallel-num-weight-shards",
              "--gtp-remat-opt-in-modules=TEXT... --gtp-remat-nccl-ub --gtp-expert-remat-nccl-ub");
  add_ignored(flags, "has an effect only with --hybrid-context-parallel",
              "--max-seqlen-per-dp-cp-rank=N");
  add_refused(flags, "simulated process groups are not supported", "--fake-process-group");
  add_ignored(flags, "parallel.zero shards within groups of parallel.dp_replicate copies",
              "--outer-dp-sharding-strategy=TEXT --enable-full-sharding-in-hsdp");
  add_ignored(flags, "--distributed-timeout-minutes applies to the whole run",
              "--distributed-timeout-seconds-after-init=N");
  add_ignored(flags, "the watchdog reports hanging collectives",
              "--flight-recorder-dump-path=TEXT --flight-recorder-trace-buffer-size=N "
              "--no-flight-recorder-dump-on-timeout --disable-flight-recorder-dump-on-timeout "
              "--flight-recorder-include-stack-trace --no-flight-recorder-include-only-active "
              "--disable-flight-recorder-include-only-active "
              "--no-flight-recorder-extra-dump-on-exec "
              "--disable-flight-recorder-extra-dump-on-exec");
  add_ignored(flags, kOverlap,
              "--pipeline-model-parallel-comm-backend=TEXT --no-tp-comm-bulk-wgrad "
              "--no-tp-comm-bulk-dgrad --no-tp-comm-overlap-ag --no-tp-comm-overlap-rs "
              "--no-tp-comm-split-ag --no-tp-comm-split-rs --ep-overlap-early-attn-memory-release "
              "--high-priority-a2a-comm-stream --symmetric-ar-type=TEXT --use-sharp "
              "--sharp-enabled-group=TEXT --high-priority-stream-groups=TEXT... "
              "--disable-symmetric-registration --create-all-gather-group");
  add_ignored(flags, kBuckets,
              "--reuse-grad-buf-for-mxfp8-param-ag --disable-align-grad-reduce "
              "--megatron-fsdp-version=N --no-use-layer-wise-param-layout "
              "--no-gradient-reduce-div-fusion --keep-fp8-transpose-cache "
              "--torch-fsdp2-no-reshard-after-forward "
              "--megatron-fsdp-enable-fine-grained-param-gather "
              "--megatron-fsdp-max-pool-double-buffer --fsdp-db-use-persist-buf-on-alloc-fail");
  return flags;
}

std::vector<Flag> logging_flags() {
  using enum Kind;
  std::vector<Flag> flags = {
      to_key("--log-interval", integer, "train.log_interval", "100"),
      rule("--tensorboard-dir", text, "log.tensorboard", "`true`; files go to run.dir/tensorboard"),
      ignored("--log-throughput", none, "tokens/s and TFLOP/s are always printed"),
      ignored("--log-progress", none, "metrics.jsonl contains every step"),
      ignored("--logging-level", integer,
              "it configures Python's loggers; log.level and --log-level set the log level of "
              "Trireme"),
      ignored("--config-logger-dir", text, "run.dir contains config.toml"),
      rule("--profile", none, "train.trace_steps", "a Chrome trace of the steps below"),
      rule("--profile-step-start", integer, "train.trace_steps",
           "only with --profile; the first traced step is one later; absent: 10"),
      rule("--profile-step-end", integer, "train.trace_steps", "only with --profile; absent: 12"),
      ignored("--codecarbon-dir", text, "energy consumption is not measured"),
  };
  add_ignored(flags, kTensorBoard,
              "--tensorboard-log-interval=N --tensorboard-queue-size=N --log-timers-to-tensorboard "
              "--log-batch-size-to-tensorboard --log-learning-rate-to-tensorboard "
              "--log-loss-scale-to-tensorboard --no-log-loss-scale-to-tensorboard "
              "--log-validation-ppl-to-tensorboard --log-memory-to-tensorboard "
              "--log-world-size-to-tensorboard --log-optimizer-states-to-tensorboard "
              "--no-log-learnig-rate-to-tensorboard");
  add_ignored(flags, "not computed", "--log-params-norm --log-num-zeros-in-grad");
  add_ignored(flags, kTimings,
              "--log-straggler --timing-log-level=N --timing-log-option=TEXT "
              "--no-barrier-with-level-1-timing --disable-straggler-on-startup "
              "--straggler-ctrlr-port=N --straggler-minmax-count=N");
  add_ignored(flags, kWandb, "--wandb-project=TEXT --wandb-exp-name=TEXT --wandb-save-dir=TEXT");
  add_ignored(flags, "nothing is uploaded",
              "--no-one-logger --one-logger-project=TEXT --one-logger-run-name=TEXT "
              "--app-tag-run-name=TEXT --app-tag-run-version=TEXT --one-logger-async");
  add_ignored(flags, kTrace,
              "--use-pytorch-profiler --profile_steps=TEXT --profile-ranks=N... --trace-dir=TEXT");
  add_ignored(flags, "memory is printed before the run, by region",
              "--record-memory-history --memory-snapshot-path=TEXT");
  add_ignored(flags, kNvrx, "--enable-ft-package --calc-ft-timeouts");
  add_ignored(flags, "not computed",
              "--log-device-memory-used --log-max-attention-logit --log-energy");
  add_ignored(flags, "not written",
              "--moe-routing-trace-path=TEXT --moe-routing-trace-max-training-iters=N "
              "--moe-routing-trace-capture-logits --moe-routing-trace-capture-hidden-states "
              "--moe-routing-trace-dump-weights");
  add_ignored(flags, kTensorBoard, "--disable-log-loss-scale-to-tensorboard");
  add_ignored(flags, "memory is printed before the run, by region", "--log-memory-interval=N");
  add_ignored(flags, kTrace,
              "--pytorch-profiler-collect-shapes --pytorch-profiler-collect-callstack "
              "--pytorch-profiler-collect-chakra --record-shapes --nvtx-ranges");
  add_ignored(flags, "--restarts N restarts a failed run",
              "--inprocess-restart --inprocess-max-iterations=N "
              "--inprocess-monitor-thread-interval=X --inprocess-monitor-process-interval=X "
              "--inprocess-progress-watchdog-interval=X --inprocess-heartbeat-interval=X "
              "--inprocess-soft-timeout=X --inprocess-hard-timeout=X "
              "--inprocess-heartbeat-timeout=X --inprocess-barrier-timeout=X "
              "--inprocess-completion-timeout=X --inprocess-last-call-wait=X "
              "--inprocess-termination-grace-time=X --inprocess-granularity=TEXT "
              "--inprocess-active-world-size=N --inprocess-empty-cuda-cache");
  add_ignored(flags, "fault injection is not supported",
              "--error-injection-rate=N --error-injection-type=TEXT --fault-injector-ranks=TEXT "
              "--fault-injector-num-ranks=N --fault-injector-fault-types=TEXT "
              "--fault-injector-fault-probabilities=TEXT --fault-injector-fault-delay=X "
              "--fault-injector-delay-start-iteration=N --fault-injector-mtti-seconds=X "
              "--fault-injector-offset-seconds=X --fault-injector-seed=N");
  add_ignored(flags, kNvrx, "--ft-num-warmup-iters=N");
  add_ignored(flags, "nothing is uploaded",
              "--wandb-entity=TEXT --otel-enabled --otel-service-name=TEXT "
              "--otel-span-groups=TEXT --run-workload-inspector-server");
  add_ignored(flags, "`trireme doctor` tests the machine", "--gpu-sniff-test-interval=N");
  return flags;
}

std::vector<Flag> kernel_flags() {
  std::vector<Flag> flags;
  add_ignored(flags, "attention never stores a T x T matrix",
              "--use-flash-attn --use-flash-attn-v2 --use-flash-attn-builder "
              "--use-flash-attn-triton");
  add_ignored(flags, kKernels,
              "--disable-te-fused-rope --abort-on-unmet-fused-kernel-constraints "
              "--attention-backend=TEXT --transformer-impl=TEXT --no-gradient-accumulation-fusion "
              "--no-masked-softmax-fusion --no-bias-swiglu-fusion --no-bias-dropout-fusion "
              "--no-rope-fusion --cross-entropy-loss-fusion --cross-entropy-fusion-impl=TEXT "
              "--no-persist-layer-norm --onnx-safe=TEXT --no-clone-scatter-output-in-embedding");
  add_ignored(
      flags, kOneDispatch,
      "--te-rng-tracker --enable-cuda-graph --external-cuda-graph --cuda-graph-scope=TEXT... "
      "--cuda-graph-warmup-steps=N");
  add_ignored(flags, kOneDispatch,
              "--cuda-graph-impl=TEXT --inference-rng-tracker --cuda-graph-modules=TEXT...");
  add_ignored(flags, "the same layout always gives the same bits",
              "--batch-invariant-mode --batch-invariant-backend=TEXT");
  add_ignored(flags, "enables nothing by itself", "--enable-experimental");
  add_ignored(flags, kKernels,
              "--flash-attention-version=N --fused-residual-rmsnorm "
              "--use-transformer-engine-op-fuser --use-grouped-gemm-for-dense-mlp "
              "--disable-clone-scatter-output-in-embedding --use-te-activation-func "
              "--mlp-chunks-for-training=N --disable-jit-fuser --mla-down-proj-fusion");
  return flags;
}

std::vector<Flag> deepspeed_flags() {
  using enum Kind;
  std::vector<Flag> flags = {
      ignored("--deepspeed", none, "sharding and accumulation are built in"),
      rule("--deepspeed_config", text,
           "parallel.zero, train.micro_batch_size, train.global_batch_size, run.precision, "
           "optimizer.clip_grad, curriculum.schedule, curriculum.min_length, curriculum.iters, "
           "curriculum.length_step, curriculum.root_degree, offload.optimizer, "
           "offload.parameters, offload.path, offload.activations, "
           "parallel.distribute_saved_activations",
           "its values apply unless a flag sets them; a contradicting flag is an error, except for "
           "loss-scaling flags, which DeepSpeed overrides"),
      rule("--zero-stage", integer, "parallel.zero", "0 to 3"),
      ignored("--deepspeed-activation-checkpointing", none,
              "--checkpoint-activations enables recomputation"),
      rule("--partition-activations", none, "parallel.distribute_saved_activations",
           "same as --distribute-saved-activations"),
      ignored("--no-pipeline-parallel", none, "the same engine is used for any number of stages"),
      rule("--ds-sequence-parallel-size", integer, "parallel.cp, parallel.cp_attention",
           "with `ulysses`"),
      ignored("--force-ds-sequence-parallel", none, "--ds-sequence-parallel-size is sufficient"),
      rule("--enable-zbh1-pipeline", none, "parallel.schedule", "`zb1p`"),
      ignored("--enable-zbh1-exact-semantics", none,
              "the optimizer always waits for all gradients"),
      to_key("--moe-expert-parallel-size", integer, "parallel.ep", ""),
      ignored("--create-moe-param-group", none, "all parameters are sharded the same way"),
      rule("--moe-loss-coeff", number, "moe.aux_loss_coeff", "with --deepspeed; absent: 0.1"),
      rule("--moe-train-capacity-factor", number, "moe.capacity_factor",
           "with --deepspeed; absent: 1.0; per sequence, which requires confirmation"),
      rule("--disable-moe-token-dropping", none, "moe.capacity_factor", "`0`"),
      to_key("--train-tokens", integer, "train.tokens", "",
             "ends the run if --train-iters or --train-samples do not end it earlier"),
      to_key("--lr-decay-tokens", integer, "optimizer.decay_tokens"),
      to_key("--lr-warmup-tokens", integer, "optimizer.warmup_tokens"),
      ignored("--cpu-optimizer", none, kHostMemory),
      ignored("--cpu_torch_adam", none, "only with --cpu-optimizer"),
      ignored("--ds_fused_adam", none, kKernels),
      refused("--remote-device", text, "weights stay in host memory", "none cpu"),
      rule("--curriculum-learning-legacy", none, "curriculum.schedule",
           "as in the section curriculum_learning of --deepspeed_config, which is sufficient by "
           "itself"),
  };
  add_refused(flags, kLongSequences, "--ds-sequence-parallel-fpdt");
  add_ignored(flags, "only with --ds-sequence-parallel-fpdt",
              "--ds-sequence-parallel-fpdt-chunk-size=N --ds-sequence-parallel-fpdt-offloading");
  add_ignored(flags, "evaluation never drops tokens", "--moe-eval-capacity-factor=X");
  add_ignored(flags,
              "the capacity factor must give each expert at least this many tokens (absent: 4)",
              "--moe-min-capacity=N");
  add_ignored(flags, kOther, "--use-pin-memory --disable-mem-efficient-ln --repeated-dataloader");
  return flags;
}

}  // namespace trireme::megatron
