// MoE flags of Megatron-LM and Megatron-DeepSpeed.
#include "importers/megatron/flags/make.h"

namespace trireme::megatron {

std::vector<Flag> expert_flags() {
  using enum Kind;
  std::vector<Flag> flags = {
      rule("--num-experts", integers, "moe.num_experts, moe.experts_by_layer",
           "1: no experts; Megatron-DeepSpeed's list may have one number per expert layer"),
      refused("--num-experts-switch", integer, "use --num-experts"),
      rule("--moe-router-topk", integer, "moe.top_k", ""),
      rule("--moe-ffn-hidden-size", integer, "moe.ffn_hidden_size", ""),
      rule("--moe-layer-freq", text, "moe.layer_interval, moe.layers",
           "a number, or a list such as `([0]*3+[1]*58)`"),
      rule("--moe-shared-expert-intermediate-size", integer, "moe.shared_ffn_hidden_size", ""),
      rule("--moe-shared-expert-gate", none, "moe.shared_gate", "`true`"),
      rule("--moe-router-score-function", choice, "moe.score", "", "softmax sigmoid"),
      rule("--moe-router-pre-softmax", none, "moe.normalize_weights", "`false`, with softmax"),
      rule("--moe-router-topk-scaling-factor", number, "moe.scaling_factor", ""),
      rule("--moe-router-num-groups", integer, "moe.num_groups", "with --moe-router-group-topk"),
      rule("--moe-router-group-topk", integer, "moe.top_groups", ""),
      rule("--moe-router-enable-expert-bias", none, "moe.expert_bias", "`true`, with sigmoid"),
      rule("--moe-router-bias-update-rate", number, "moe.bias_update_rate", ""),
      rule("--moe-router-load-balancing-type", texts, "moe.aux_loss, moe.aux_loss_coeff",
           "`aux_loss`: per micro-batch; `seq_aux_loss`: per sequence; `global_aux_loss`: over the "
           "global batch, which requires confirmation; or `none`"),
      rule("--moe-aux-loss-coeff", numbers, "moe.aux_loss_coeff", ""),
      rule("--moe-z-loss-coeff", number, "moe.z_loss_coeff", ""),
      rule("--moe-expert-capacity-factor", number, "moe.capacity_factor",
           "per sequence, which requires confirmation if micro-batches have several"),
      rule("--moe-token-drop-policy", choice, "moe.drop_policy", "", "probs position"),
      rule("--topk", integer, "moe.top_k", "with --deepspeed"),
      rule("--expert-interval", integer, "moe.first_layer, moe.layer_interval",
           "with --deepspeed: layers N, 2 N and so on, counted from 1"),
      rule("--mlp-type", choice, "moe.residual, moe.shared_ffn_hidden_size",
           "with --deepspeed; residual: an MLP as wide as an expert, combined with the experts",
           "standard residual"),
      refused("--moe-router-topk-limited-devices", integer,
              "replaced by --moe-router-num-groups and --moe-router-group-topk"),
      refused("--moe-expert-rank-capacity-factor", number,
              "token dropping does not depend on ranks: use --moe-expert-capacity-factor"),
      refused("--moe-token-dropping", none, "give --moe-expert-capacity-factor"),
      refused("--moe-latent-size", integer, "experts read rows of the model's width"),
      refused("--moe-dispatch-fwd-dtype", text, "tokens are communicated in run.precision", "bf16"),
      refused("--moe-combine-bwd-dtype", text, "tokens are communicated in run.precision", "bf16"),
      refused("--moe-layer-recompute", none, "give --recompute-granularity full or selective"),
      refused("--moe-enable-routing-replay", none, "routing is not replayed"),
      refused("--moe-router-quantile-balancing-ema", number, "quantile balancing is not supported",
              "0 0.0"),
      refused("--moe-upcycling-granularity", integer, "upcycling of a dense model is not supported",
              "1"),
      refused("--moe-use-upcycling", none, "upcycling of a dense model is not supported"),
      refused("--moe-apply-probs-on-input", none, "routing weights multiply the output of experts"),
      refused("--moe-input-jitter-eps", number, "input jitter of the router is not supported",
              "0 0.0"),
      ignored("--moe-router-dtype", text, "router logits are fp32, or fp64 in fp64 runs"),
      ignored("--moe-pad-expert-input-to-capacity", none, "expert inputs are not padded"),
      rule("--enable-expert-tensor-parallelism", none, "parallel.expert_tp",
           "with --deepspeed: --tensor-model-parallel-size"),
      ignored("--disable-moe-top2-2nd-expert-sampling", none, "routing is never random"),
  };
  add_ignored(flags, "Trireme chooses kernels and communication of experts itself",
              "--moe-grouped-gemm --moe-token-dispatcher-type=TEXT --moe-permute-fusion "
              "--moe-shared-expert-overlap --moe-per-layer-logging --use-tutel "
              "--moe-router-fusion --moe-enable-deepep --moe-deepep-num-sms=N "
              "--moe-flex-dispatcher-backend=TEXT --moe-flex-dispatcher-num-sms=N "
              "--moe-hybridep-num-sms=N --moe-hybridep-num-sms-preprocessing=N "
              "--moe-hybridep-num-blocks-permute=N --moe-hybridep-num-blocks-unpermute=N "
              "--moe-hybridep-pad-uneven-dispatch-inputs --moe-permute-fusion-into-hybridep "
              "--moe-ncclep-zero-copy --moe-use-legacy-grouped-gemm --moe-use-grouped-tensor "
              "--moe-single-grouped-weight --moe-single-grouped-bias "
              "--use-grouped-gemm-for-shared-expert --use-fused-weighted-squared-relu "
              "--overlap-moe-expert-parallel-comm --delay-wgrad-compute "
              "--overlap-dispatch-backward-with-experts-wgrad");
  add_ignored(flags, "memory for experts is planned before the run",
              "--moe-paged-stash --moe-paged-stash-page-size=N "
              "--moe-paged-stash-buffer-size-factor-cuda=X "
              "--moe-paged-stash-buffer-size-factor-cpu=X "
              "--moe-pad-experts-for-cuda-graph-inference");
  add_ignored(flags, "Trireme chooses the memory layout of weights itself",
              "--moe-mlp-glu-interleave-size=N --moe-shared-expert-glu-interleave-size=N");
  add_refused(flags, "no padding rows are added for fp8",
              "--moe-router-padding-for-fp8 --moe-router-padding-for-quantization");
  add_refused(flags, "it is only for benchmarks: remove it",
              "--moe-router-force-load-balancing --moe-router-force-biased=X");
  add_refused(flags, "give --expert-tensor-parallel-size",
              "--moe-extended-tp --expert-tensor-parallel-num-weight-shards=N");
  add_refused(flags, "distillation is not supported",
              "--mos --kd --kd-alpha-ce=X --kd-beta-ce=X --kd-temp=X --load-teacher=TEXT "
              "--num-layers-teacher=N --num-experts-teacher=N... --hidden-size-teacher=N "
              "--num-attention-heads-teacher=N");
  return flags;
}

}  // namespace trireme::megatron
