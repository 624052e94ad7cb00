// Flags of data, checkpoints, parallelism, logging, and of libraries that are not beneath us.
#include "megatron/flags_make.h"

namespace trireme::megatron {
namespace {

constexpr const char* kKernels = "kernels are chosen here, with the same meaning";
constexpr const char* kOneDispatch = "there is no launch of kernels or graph capture to tune";
constexpr const char* kOverlap = "communication overlaps with computation where it can";
constexpr const char* kBuckets = "communication is cut into pieces by itself";
constexpr const char* kCheckpointForm = "there is one form of checkpoint, which fits any layout";
constexpr const char* kStartup = "MPI or SLURM start the ranks";
constexpr const char* kWandb = "use metrics.jsonl or TensorBoard's files";
constexpr const char* kTensorBoard = "what TensorBoard's files hold does not depend on it";
constexpr const char* kTimings = "times of each step stand in timings.jsonl";
constexpr const char* kNvrx = "the run survives kills by itself: start it again";
constexpr const char* kOther = "DeepSpeed's; means nothing here";

}  // namespace

std::vector<Flag> data_flags() {
  using enum Kind;
  return {
      to_key("--data-path", texts, "data.path"),
      to_key("--split", text, "data.split", "969, 30, 1", "absent counts with --data-path only"),
      to_key("--train-data-path", texts, "data.train_path"),
      to_key("--valid-data-path", texts, "data.valid_path"),
      to_key("--test-data-path", texts, "data.test_path"),
      refused("--data-args-path", text, "give its contents to --data-path"),
      refused("--per-split-data-args-path", text,
              "give its contents to --train-data-path, --valid-data-path and --test-data-path"),
      refused("--mock-data", none,
              "there is no mock data; make a dataset with `trireme preprocess`"),
      to_key("--data-cache-path", text, "data.cache_dir"),
      rule("--tokenizer-type", choice, "data.tokenizer",
           "absent: pretrain-gpt `gpt2`, pretrain-bert `bert`",
           "GPT2BPETokenizer=gpt2 BertWordPieceLowerCase=bert BertWordPieceCase=bert_cased "
           "SentencePieceTokenizer=SentencePieceTokenizer GPTSentencePieceTokenizer=sentencepiece "
           "Llama2Tokenizer=llama2 TikTokenizer=tiktoken HuggingFaceTokenizer=hf "
           "NullTokenizer=null"),
      to_key("--vocab-file", text, "data.vocab_file"),
      to_key("--merge-file", text, "data.merge_file"),
      to_key("--tokenizer-model", text, "data.tokenizer_model"),
      rule("--vocab-size", integer, "model.vocab_size",
           "with NullTokenizer, one more for the end of a document; else the tokenizer knows"),
      refused("--vocab-extra-ids", integer, "the vocabulary is the tokenizer's", "0"),
      ignored("--tiktoken-pattern", text, "follows from the file (docs/tokenizers.md)"),
      ignored("--tiktoken-num-special-tokens", integer, "follows from the file"),
      refused("--tiktoken-special-tokens", texts, "special tokens follow from the file"),
      turns("--reset-position-ids", "data.reset_position_ids", "true", "false"),
      turns("--reset-attention-mask", "data.reset_attention_mask", "true", "false"),
      turns("--eod-mask-loss", "data.eod_mask_loss", "true", "false"),
      bert_only(to_key("--mask-prob", number, "data.mask_prob", "0.15")),
      bert_only(to_key("--short-seq-prob", number, "data.short_seq_prob", "0.1")),
      ignored("--num-workers", integer, "one thread reads ahead (data.prefetch)"),
      ignored("--data-impl", text, "indexed datasets are always mapped"),
      ignored("--dataset-impl", text, "indexed datasets are always mapped"),
      ignored("--mmap-warmup", none, "indexed datasets are always mapped"),
      ignored("--no-mmap-bin-files", none, "indexed datasets are always mapped"),
      ignored("--num-dataset-builder-threads", integer, "orders are built by all threads"),
      ignored("--no-create-attention-mask-in-dataloader", none, "no mask is ever stored"),
      refused("--dataloader-type", text, "samples come in Megatron's order for `single`", "single"),
      refused("--s3-cache-path", text, "data lies in files"),
      rule("--fim-data", none, "data.fim_rate", "turns fill-in-the-middle on"),
      rule("--fim-rate", number, "data.fim_rate", "counts with --fim-data; absent: 0.5"),
      rule("--fim-spm-rate", number, "data.fim_spm_rate", "counts with --fim-data; absent: 0.5"),
      rule("--fim-prefix-token", text, "data.fim_prefix_token",
           "counts with --fim-data; absent: `<fim_prefix>`"),
      rule("--fim-middle-token", text, "data.fim_middle_token",
           "counts with --fim-data; absent: `<fim_middle>`"),
      rule("--fim-suffix-token", text, "data.fim_suffix_token",
           "counts with --fim-data; absent: `<fim_suffix>`"),
      ignored("--fim-pad-token", text, "what gets shorter ends with end-of-document tokens"),
      ignored("--fim-eod-token", text, "the tokenizer knows what ends a document"),
      refused("--fim-split-sample", text, "whole documents are rewritten"),
      refused("--fim-fragment-rate", number, "whole documents are rewritten"),
      refused("--fim-no-prefix", text, "every document may be rewritten"),
  };
}

std::vector<Flag> checkpoint_flags() {
  using enum Kind;
  return {
      rule("--save", text, "run.dir", "metrics, logs and configuration go there too"),
      to_key("--save-interval", integer, "checkpoint.interval"),
      to_key("--persistent-save-interval", integer, "checkpoint.interval"),
      rule("--load", text, "checkpoint.load",
           "a run always goes on from run.dir; only another folder needs the key"),
      rule("--pretrained-checkpoint", text, "checkpoint.load, checkpoint.finetune",
           "weights to start from"),
      turns("--no-load-optim", "checkpoint.load_optimizer", "false", "true"),
      turns("--no-load-rng", "checkpoint.load_rng", "false", "true"),
      turns("--finetune", "checkpoint.finetune", "true", "false",
            "takes the weights of --load alone"),
      turns("--async-save", "checkpoint.async", "true", "false"),
      ignored("--no-save-optim", none, "checkpoints are always whole"),
      ignored("--no-save-rng", none, "checkpoints are always whole"),
      refused("--ckpt-step", integer, "name the checkpoint's folder: --load DIR/step-0001000"),
      ignored("--exit-on-missing-checkpoint", none, "checkpoint.load must be there"),
      refused("--use-checkpoint-args", none, "keep the flags, or train from the run's config.toml"),
      ignored("--ckpt-format", text, kCheckpointForm),
      ignored("--use-dist-ckpt", none, kCheckpointForm),
      ignored("--dist-ckpt-format", text, kCheckpointForm),
      ignored("--auto-detect-ckpt-format", none, kCheckpointForm),
      ignored("--ckpt-fully-parallel-save", none, kCheckpointForm),
      ignored("--no-ckpt-fully-parallel-save", none, kCheckpointForm),
      ignored("--ckpt-fully-parallel-load", none, kCheckpointForm),
      ignored("--ckpt-assume-constant-structure", none, kCheckpointForm),
      ignored("--use-persistent-ckpt-worker", none, kCheckpointForm),
      ignored("--dist-ckpt-strictness", text, kCheckpointForm),
      refused("--non-persistent-save-interval", integer, "use --save-interval and --async-save"),
  };
}

std::vector<Flag> parallel_flags() {
  using enum Kind;
  return {
      to_key("--tensor-model-parallel-size", integer, "parallel.tp", "1"),
      to_key("--pipeline-model-parallel-size", integer, "parallel.pp", "1"),
      to_key("--context-parallel-size", integer, "parallel.cp", "1"),
      to_key("--expert-model-parallel-size", integer, "parallel.ep", "1"),
      refused("--expert-tensor-parallel-size", integer, "mixtures of experts are not there", "1"),
      refused("--model-parallel-size", integer,
              "Megatron itself renamed it: --tensor-model-parallel-size"),
      rule("--num-layers-per-virtual-pipeline-stage", integer,
           "parallel.virtual_stages, parallel.schedule",
           "layers / pipeline stages / N chunks on each rank, schedule `interleaved`"),
      rule("--num-virtual-stages-per-pipeline-rank", integer,
           "parallel.virtual_stages, parallel.schedule", "N chunks on each rank"),
      rule("--decoder-first-pipeline-num-layers", integer, "parallel.stage_layers",
           "the other stages share the rest evenly"),
      rule("--decoder-last-pipeline-num-layers", integer, "parallel.stage_layers",
           "the other stages share the rest evenly"),
      refused("--account-for-embedding-in-pipeline-split", none, "give parallel.stage_layers"),
      refused("--account-for-loss-in-pipeline-split", none, "give parallel.stage_layers"),
      refused("--pipeline-model-parallel-layout", text, "give parallel.stage_layers"),
      rule("--sequence-parallel", none, "parallel.sequence_parallel",
           "`true` where the tensor-parallel size is above 1, as in Megatron"),
      rule("--use-distributed-optimizer", none, "parallel.zero", "`1`"),
      rule("--use-torch-fsdp2", none, "parallel.zero", "`3`"),
      rule("--use-custom-fsdp", none, "parallel.zero", "as --data-parallel-sharding-strategy says"),
      rule("--use-megatron-fsdp", none, "parallel.zero",
           "as --data-parallel-sharding-strategy says"),
      rule("--data-parallel-sharding-strategy", choice, "parallel.zero",
           "counts with --use-custom-fsdp or --use-megatron-fsdp only",
           "no_shard=0 optim=1 optim_grads=2 optim_grads_params=3"),
      to_key("--num-distributed-optimizer-instances", integer, "parallel.dp_replicate"),
      ignored("--overlap-grad-reduce", none, kOverlap),
      ignored("--overlap-param-gather", none, kOverlap),
      ignored("--overlap-param-gather-with-optimizer-step", none, kOverlap),
      ignored("--no-overlap-p2p-communication", none, kOverlap),
      ignored("--overlap-p2p-communication-warmup-flush", none, kOverlap),
      ignored("--tp-comm-overlap", none, kOverlap),
      ignored("--no-async-tensor-model-parallel-allreduce", none, kOverlap),
      ignored("--defer-embedding-wgrad-compute", none, kOverlap),
      ignored("--microbatch-group-size-per-virtual-pipeline-stage", integer, kOverlap),
      ignored("--ddp-bucket-size", integer, kBuckets),
      ignored("--ddp-num-buckets", integer, kBuckets),
      ignored("--ddp-average-in-collective", none, kBuckets),
      ignored("--ddp-pad-buckets-for-high-nccl-busbw", none, kBuckets),
      ignored("--no-align-grad-reduce", none, kBuckets),
      ignored("--no-align-param-gather", none, kBuckets),
      ignored("--no-scatter-gather-tensors-in-pipeline", none, kBuckets),
      ignored("--use-ring-exchange-p2p", none, kBuckets),
      ignored("--DDP-impl", text, "there is one implementation"),
      ignored("--cp-comm-type", texts, "context parallelism chooses its communication"),
      ignored("--use-tp-pp-dp-mapping", none,
              "ranks are counted tp, cp, dp, pp; the order changes nothing but the network"),
      ignored("--distributed-backend", text, "MPI carries what the ranks exchange"),
      rule("--distributed-timeout-minutes", number, "train.timeout_s",
           "in seconds, with a note; absent: 10 minutes as in Megatron"),
      ignored("--local-rank", integer, kStartup),
      ignored("--local_rank", integer, kStartup),
      ignored("--lazy-mpu-init", text, kStartup),
      ignored("--use-cpu-initialization", none, "initial weights do not depend on the device"),
      ignored("--disable-gloo-process-groups", none, kStartup),
      ignored("--nccl-communicator-config-path", text, kStartup),
      ignored("--init-model-with-meta-device", none, "only what a rank owns is ever allocated"),
  };
}

std::vector<Flag> logging_flags() {
  using enum Kind;
  return {
      to_key("--log-interval", integer, "train.log_interval", "100"),
      rule("--tensorboard-dir", text, "log.tensorboard", "`true`; files go to run.dir/tensorboard"),
      ignored("--tensorboard-log-interval", integer, kTensorBoard),
      ignored("--tensorboard-queue-size", integer, kTensorBoard),
      ignored("--log-timers-to-tensorboard", none, kTensorBoard),
      ignored("--log-batch-size-to-tensorboard", none, kTensorBoard),
      ignored("--log-learning-rate-to-tensorboard", none, kTensorBoard),
      ignored("--log-loss-scale-to-tensorboard", none, kTensorBoard),
      ignored("--no-log-loss-scale-to-tensorboard", none, kTensorBoard),
      ignored("--log-validation-ppl-to-tensorboard", none, kTensorBoard),
      ignored("--log-memory-to-tensorboard", none, kTensorBoard),
      ignored("--log-world-size-to-tensorboard", none, kTensorBoard),
      ignored("--log-optimizer-states-to-tensorboard", none, kTensorBoard),
      ignored("--log-throughput", none, "tokens/s and TFLOP/s are always printed"),
      ignored("--log-params-norm", none, "not computed"),
      ignored("--log-num-zeros-in-grad", none, "not computed"),
      ignored("--log-progress", none, "metrics.jsonl holds every step"),
      ignored("--log-straggler", none, kTimings),
      ignored("--timing-log-level", integer, kTimings),
      ignored("--timing-log-option", text, kTimings),
      ignored("--no-barrier-with-level-1-timing", none, kTimings),
      ignored("--logging-level", integer, "there is one level"),
      ignored("--wandb-project", text, kWandb),
      ignored("--wandb-exp-name", text, kWandb),
      ignored("--wandb-save-dir", text, kWandb),
      ignored("--no-one-logger", none, "nothing is sent anywhere"),
      ignored("--one-logger-project", text, "nothing is sent anywhere"),
      ignored("--one-logger-run-name", text, "nothing is sent anywhere"),
      ignored("--app-tag-run-name", text, "nothing is sent anywhere"),
      ignored("--app-tag-run-version", text, "nothing is sent anywhere"),
      ignored("--config-logger-dir", text, "run.dir holds config.toml"),
      ignored("--profile", none, "use train.trace_steps or `trireme bench`"),
      ignored("--use-pytorch-profiler", none, "use train.trace_steps or `trireme bench`"),
      ignored("--profile-step-start", integer, "use train.trace_steps"),
      ignored("--profile-step-end", integer, "use train.trace_steps"),
      ignored("--profile-ranks", integers, "use train.trace_steps"),
      ignored("--record-memory-history", none, "memory is printed before the run, by region"),
      ignored("--memory-snapshot-path", text, "memory is printed before the run, by region"),
      ignored("--enable-ft-package", none, kNvrx),
      ignored("--calc-ft-timeouts", none, kNvrx),
  };
}

std::vector<Flag> kernel_flags() {
  using enum Kind;
  return {
      ignored("--use-flash-attn", none, "attention never stores a T x T matrix"),
      ignored("--use-flash-attn-v2", none, "attention never stores a T x T matrix"),
      ignored("--use-flash-attn-triton", none, "attention never stores a T x T matrix"),
      ignored("--attention-backend", text, kKernels),
      ignored("--transformer-impl", text, kKernels),
      ignored("--no-gradient-accumulation-fusion", none, kKernels),
      ignored("--no-masked-softmax-fusion", none, kKernels),
      ignored("--no-bias-swiglu-fusion", none, kKernels),
      ignored("--no-bias-dropout-fusion", none, kKernels),
      ignored("--no-rope-fusion", none, kKernels),
      ignored("--cross-entropy-loss-fusion", none, kKernels),
      ignored("--cross-entropy-fusion-impl", text, kKernels),
      ignored("--no-persist-layer-norm", none, kKernels),
      ignored("--onnx-safe", text, kKernels),
      ignored("--no-clone-scatter-output-in-embedding", none, kKernels),
      ignored("--te-rng-tracker", none, kOneDispatch),
      ignored("--enable-cuda-graph", none, kOneDispatch),
      ignored("--external-cuda-graph", none, kOneDispatch),
      ignored("--cuda-graph-scope", text, kOneDispatch),
      ignored("--cuda-graph-warmup-steps", integer, kOneDispatch),
  };
}

std::vector<Flag> deepspeed_flags() {
  using enum Kind;
  return {
      ignored("--deepspeed", none, "sharding and accumulation are built in"),
      rule("--deepspeed_config", text,
           "parallel.zero, train.micro_batch_size, train.global_batch_size, run.precision, "
           "optimizer.clip_grad, curriculum.schedule, curriculum.min_length, curriculum.iters, "
           "curriculum.length_step, curriculum.root_degree",
           "its values count where no flag says them; a flag that contradicts them is an error"),
      rule("--zero-stage", integer, "parallel.zero", "0 to 3"),
      ignored("--deepspeed-activation-checkpointing", none,
              "--checkpoint-activations says whether to recompute"),
      ignored("--partition-activations", none, "--sequence-parallel divides them"),
      ignored("--no-pipeline-parallel", none, "one engine for any number of stages"),
      refused("--ds-sequence-parallel-size", integer, "use --context-parallel-size", "1"),
      refused("--moe-expert-parallel-size", integer, "mixtures of experts are not there", "1"),
      ignored("--moe-loss-coeff", number, "counts for mixtures of experts only"),
      ignored("--moe-train-capacity-factor", number, "counts for mixtures of experts only"),
      ignored("--moe-eval-capacity-factor", number, "counts for mixtures of experts only"),
      ignored("--moe-min-capacity", integer, "counts for mixtures of experts only"),
      ignored("--disable-moe-token-dropping", none, "counts for mixtures of experts only"),
      refused("--create-moe-param-group", none, "mixtures of experts are not there"),
      rule("--train-tokens", integer, "train.iters",
           "the run ends at --train-iters or after so many tokens, whichever comes first"),
      rule("--lr-decay-tokens", integer, "optimizer.decay_iters, optimizer.decay_samples",
           "divided by the tokens of an iteration or sample"),
      rule("--lr-warmup-tokens", integer, "optimizer.warmup_iters, optimizer.warmup_samples",
           "divided by the tokens of an iteration or sample"),
      refused("--cpu-optimizer", none, "states of the optimizer stay where the model is"),
      rule(
          "--curriculum-learning-legacy", none, "curriculum.schedule",
          "as the section curriculum_learning of --deepspeed_config says, which also counts alone"),
      refused("--universal-checkpoint", none, "checkpoints of DeepSpeed are not read yet"),
      ignored("--use-pin-memory", none, kOther),
      ignored("--synchronize-each-layer", none, kOther),
      ignored("--contigious-checkpointing", none, kOther),
      ignored("--checkpoint-in-cpu", none, kOther),
      ignored("--disable-mem-efficient-ln", none, kOther),
      ignored("--repeated-dataloader", none, kOther),
  };
}

}  // namespace trireme::megatron
