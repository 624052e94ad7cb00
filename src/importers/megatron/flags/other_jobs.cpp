// Flags of Megatron's parser for jobs other than pre-training of a text model.
#include "importers/megatron/flags/make.h"

namespace trireme::megatron {

std::vector<Flag> other_job_flags() {
  std::vector<Flag> flags;
  add_refused(flags, "belongs to reinforcement learning, which is not supported",
              "--perform-rl-step");
  add_ignored(flags, "belongs to reinforcement learning: has an effect only with --perform-rl-step",
              "--rl-prompts-per-eval=N --grpo-prompts-per-step=N --grpo-group-size=N "
              "--rl-generation-lag=X --rl-max-inflight-requests=N "
              "--rl-submission-granularity=TEXT --rl-consumption-granularity=TEXT "
              "--rl-durable-rollout-bank --rl-rollout-bank-dir=TEXT --rl-rollout-bank-max-bytes=N "
              "--grpo-iterations=N --grpo-clamp-eps-lower=X --grpo-clamp-eps-upper=X "
              "--grpo-kl-beta=X --grpo-entropy-term-weight=X "
              "--grpo-filter-groups-with-same-reward --langrl-env-config=TEXT "
              "--rl-default-temperature=X --rl-default-top-p=X --rl-default-top-k=N "
              "--rl-offload-optimizer-during-inference --rl-kv-cache-management-mode=TEXT "
              "--rl-persist-cuda-graphs --no-rl-persist-cuda-graphs --rl-partial-rollouts "
              "--no-rl-partial-rollouts --rl-inference-logprobs-is-correction "
              "--no-rl-inference-logprobs-is-correction "
              "--rl-importance-sampling-truncation-coef=X --rl-use-sequence-packing "
              "--no-rl-use-sequence-packing --rl-sequence-packing-max-sequences-per-bin=N "
              "--rl-sequence-packing-algo=TEXT --rl-training-cuda-graphs "
              "--no-rl-training-cuda-graphs --rl-inference-tensor-model-parallel-size=N "
              "--rl-inference-pipeline-model-parallel-size=N "
              "--rl-inference-expert-model-parallel-size=N "
              "--rl-inference-expert-tensor-model-parallel-size=N "
              "--rl-inference-model-unified-memory-level=N "
              "--rl-offload-inference-model-weights-when-idle "
              "--no-rl-offload-inference-model-weights-when-idle --refit-method=TEXT "
              "--rl-verify-model-weights-swap --no-rl-verify-model-weights-swap "
              "--rl-skip-bos-token --no-rl-skip-bos-token --rl-profile --rl-profile-dir=TEXT "
              "--rl-inference-parsers=TEXT...");
  add_refused(flags, "output of hidden states during training is not supported",
              "--output-bert-embeddings");
  add_ignored(flags, "belongs to inference: use `trireme generate`",
              "--inference-cuda-graph-scope=TEXT --flash-decode --nccl-all-reduce-for-prefill "
              "--inference-fuse-tp-communication --inference-disable-triton-nvls-kernels "
              "--inference-grouped-gemm-backend=TEXT --inference-moe-disable-fused-quant-kernels "
              "--inference-moe-token-dispatcher-type=TEXT --mlp-chunks-for-prefill=N "
              "--cache-mla-latents --inference-batch-times-seqlen-threshold=N "
              "--max-tokens-to-oom=N --bert-embedder-type=TEXT --use-legacy-static-engine "
              "--inference-max-requests=N --inference-max-seq-length=N "
              "--inference-dynamic-batching --inference-dynamic-batching-buffer-size-gb=X "
              "--inference-dynamic-batching-paused-buffer-size-gb=X "
              "--inference-dynamic-batching-mamba-memory-ratio=X "
              "--inference-dynamic-batching-block-size=N "
              "--inference-dynamic-batching-max-requests=N "
              "--inference-dynamic-batching-max-tokens=N "
              "--inference-dynamic-batching-num-cuda-graphs=N "
              "--inference-dynamic-batching-track-paused-request-events "
              "--inference-dynamic-batching-track-generated-token-events "
              "--decode-only-cuda-graphs --inference-cuda-graph-all-prefills "
              "--inference-cuda-graph-max-tokens=N "
              "--inference-dynamic-batching-unified-memory-level=N --enable-chunked-prefill "
              "--num-speculative-tokens=N --inference-dynamic-batching-prefix-caching "
              "--no-inference-dynamic-batching-prefix-caching "
              "--inference-dynamic-batching-prefix-caching-eviction-policy=TEXT "
              "--inference-dynamic-batching-prefix-caching-coordinator-policy=TEXT "
              "--inference-dynamic-batching-prefix-caching-routing-alpha=X "
              "--inference-dynamic-batching-prefix-caching-mamba-gb=X "
              "--inference-dynamic-batching-cuda-graph-mixed-prefill-count=N "
              "--inference-dynamic-batching-cuda-graph-sizing-distribution=TEXT "
              "--inference-dynamic-batching-sampling-backend=TEXT "
              "--use-same-sampling-seed-across-dp-ranks "
              "--inference-dynamic-batching-async-sched-mode=TEXT "
              "--inference-dynamic-batching-logprobs-mode=TEXT "
              "--inference-logging-step-interval=N --inference-text-gen-server-logging "
              "--no-inference-text-gen-server-logging --inference-wandb-logging "
              "--no-inference-wandb-logging --inference-coordinator-port=N "
              "--mamba-inference-conv-states-dtype=TEXT --mamba-inference-ssm-states-dtype=TEXT "
              "--inference-use-synchronous-zmq-collectives "
              "--no-inference-use-synchronous-zmq-collectives --inference-disable-ep-consensus "
              "--no-inference-disable-ep-consensus --inference-shards=TEXT");
  add_refused(flags, "belongs to vision models, which are not supported", "--vision-pretraining");
  add_ignored(flags, "belongs to vision models: has an effect only in their programs",
              "--num-classes=N --img-h=N --img-w=N --num-channels=N --patch-dim=N "
              "--classes-fraction=X --data-per-class-fraction=X --no-data-sharding "
              "--vision-pretraining-type=TEXT --vision-backbone-type=TEXT "
              "--swin-backbone-type=TEXT --mask-type=TEXT --mask-factor=X --iter-per-epoch=N "
              "--dino-local-img-size=N --dino-local-crops-number=N --dino-head-hidden-size=N "
              "--dino-bottleneck-size=N --dino-freeze-last-layer=X --dino-norm-last-layer "
              "--dino-warmup-teacher-temp=X --dino-teacher-temp=X "
              "--dino-warmup-teacher-temp-epochs=N");
  add_ignored(flags,
              "belongs to retrieval (ICT, REALM, biencoders): has an effect only in their programs",
              "--ict-head-size=N --biencoder-projection-dim=N "
              "--biencoder-shared-query-context-model --ict-load=TEXT --bert-load=TEXT "
              "--titles-data-path=TEXT --query-in-block-prob=X --use-one-sent-docs "
              "--evidence-data-path=TEXT --retriever-report-topk-accuracies=N... "
              "--retriever-score-scaling --block-data-path=TEXT --embedding-path=TEXT "
              "--indexer-batch-size=N --indexer-log-interval=N");
  add_refused(flags, "fine-tuning on conversations is not supported", "--sft");
  add_ignored(flags, "has an effect only with --sft",
              "--chat-template=TEXT --sft-tokenizer-prompt-format=TEXT");
  add_refused(flags, "distillation and quantization (ModelOpt) are not supported",
              "--export-real-quant-cfg=TEXT --export-quant-cfg=TEXT --export-kd-teacher-load=TEXT "
              "--qad-train-target=TEXT --freeze-base-for-mtp --export-qk-l2-norm "
              "--export-moe-apply-probs-on-input --export-offline-model --modelopt-enabled");
  add_refused(flags,
              "use the flags of the model itself: --position-embedding-type yarn and its scaling",
              "--enable-gpt-oss");
  add_ignored(flags, "belongs to ModelOpt, a different program",
              "--export-model-type=TEXT --export-legacy-megatron --export-te-mcore-model "
              "--export-default-te-spec --export-force-local-attention "
              "--export-kv-cache-quant=TEXT --export-kd-teacher-model-config=TEXT "
              "--export-kd-teacher-ckpt-format=TEXT --export-kd-cfg=TEXT "
              "--finetune-hf-dataset=TEXT --finetune-data-split=TEXT "
              "--finetune-data-files=TEXT...");
  add_refused(flags, "reading and writing teacher logits is not supported",
              "--logits-save-dir=TEXT --logits-load-dir=TEXT");
  add_ignored(flags, "has an effect only with --logits-load-dir or --logits-save-dir",
              "--logits-save-top-k=N --logits-save-top-p=X --logits-save-top-p-min-k=N "
              "--logits-save-dtype=TEXT --logits-load-decode-threads=N "
              "--logits-load-prefetch-factor=N --logits-load-msc-prefetch-depth=N "
              "--logits-load-kd-loss-alpha=X --logits-load-ignore-errors");
  add_refused(flags, "freezing parts of a model is not supported", "--freeze-all-layers");
  add_refused(
      flags, "not a command-line flag of Megatron, but a field of its configuration",
      "--disable-check-for-nan-in-loss --no-check-for-nan-in-loss --disable-filter-warnings "
      "--no-filter-warnings --disable-load-optim --disable-load-rng --disable-save-optim "
      "--disable-save-rng --log-l2-norm-grad-to-tensorboard --log-runtime-to-tensorboard "
      "--log-throughput-to-tensorboard --memory-keys=TEXT... --modules-to-filter=TEXT... "
      "--most-recent-k=N --runtime-time-unit=TEXT --save-config-filepath=TEXT "
      "--set-level-for-all-loggers --throughput-window-size=N");
  return flags;
}

}  // namespace trireme::megatron
