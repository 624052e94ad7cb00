// Flags of the model.
#include "importers/megatron/flags/make.h"

namespace trireme::megatron {
namespace {

constexpr const char* kOtherModel = "applies to a model that Trireme does not support";
constexpr const char* kOneInit = "all weights are initialized with model.init_std";

}  // namespace

std::vector<Flag> model_flags() {
  using enum Kind;
  std::vector<Flag> flags = {
      required("--num-layers", integer, "model.num_layers"),
      required("--hidden-size", integer, "model.hidden_size"),
      required("--num-attention-heads", integer, "model.num_heads"),
      required("--seq-length", integer, "model.seq_length"),
      required("--max-position-embeddings", integer, "model.max_positions"),
      rule("--encoder-num-layers", integer, "model.num_layers", "another name of --num-layers"),
      rule("--encoder-seq-length", integer, "model.seq_length", "another name of --seq-length"),
      to_key("--ffn-hidden-size", integer, "model.ffn_hidden_size"),
      rule("--kv-channels", integer, "model.head_dim",
           "has no effect with --multi-latent-attention"),
      rule("--group-query-attention", none, "model.num_kv_heads",
           "num_kv_heads is --num-query-groups, or 1; without it every head has its own keys and "
           "values"),
      rule("--num-query-groups", integer, "model.num_kv_heads",
           "has an effect only with --group-query-attention"),
      rule("--num-key-value-heads", integer, "model.num_kv_heads", "Megatron-DeepSpeed's name"),
      rule("--position-embedding-type", choice, "model.position",
           "absent: `learned`; other types are rejected", "learned_absolute rope yarn alibi none"),
      rule("--use-rotary-position-embeddings", none, "model.position",
           "same as --position-embedding-type rope"),
      rule("--no-position-embedding", none, "model.position",
           "same as --position-embedding-type none, unless rotary"),
      to_key("--rotary-base", number, "model.rope_base", "10000"),
      to_key("--rotary-percent", number, "model.rope_percent", "1.0"),
      to_key("--rotary-position-embeddings-theta", number, "model.rope_base", "",
             "Megatron-DeepSpeed's name of --rotary-base"),
      refused("--rotary-interleaved", none,
              "in Trireme rotary pairs are split over the two halves of a head"),
      rule("--no-rope-freq", text, "model.no_rope_layers",
           "a number N, every N-th layer has no position embedding, or a list such as "
           "`([0]*3+[1])*8` with 1 for a layer without; 0: all have it"),
      rule("--rotary-seq-len-interpolation-factor", integer,
           "model.rope_scaling, model.rope_scaling_factor",
           "above 1: `linear` scaling with this factor"),
      rule("--use-rope-scaling", none,
           "model.rope_scaling, model.rope_low_freq_factor, model.rope_high_freq_factor, "
           "model.rope_original_length",
           "`llama3` with Megatron's 1, 4 and 8192"),
      rule("--rope-scaling-factor", number, "model.rope_scaling_factor",
           "has an effect only with --use-rope-scaling; absent: 8"),
      chooses("--normalization", "model.norm",
              "LayerNorm=layer_norm RMSNorm=rms_norm layernorm=layer_norm rmsnorm=rms_norm",
              "layer_norm"),
      to_key("--norm-epsilon", number, "model.norm_eps", "1e-5"),
      to_key("--layernorm-epsilon", number, "model.norm_eps", "", "older name"),
      ignored("--apply-layernorm-1p", none,
              "the same function; checkpoints contain the scale itself, not the scale minus 1"),
      refused("--apply-residual-connection-post-layernorm", none,
              "the residual bypasses the norm in Trireme"),
      rule("--swiglu", none, "model.activation", "`swiglu`"),
      rule("--glu-activation", choice, "model.activation, model.ffn_hidden_size",
           "`swiglu`; as in BigScience's fork, --ffn-hidden-size is then 4 times --hidden-size "
           "unless it is given",
           "swiglu"),
      rule("--quick-geglu", none, "model.activation, model.gate_alpha, model.ffn_hidden_size",
           "`swiglu` with a slope of 1.702; --ffn-hidden-size is then 4 times --hidden-size unless "
           "it is given"),
      rule("--activation-func-clamp-value", number, "model.activation_clamp",
           "with --quick-geglu, or --swiglu and experts"),
      rule("--glu-linear-offset", number, "model.gate_offset", "with --quick-geglu or --swiglu"),
      rule("--softmax-type", choice, "model.attention_sinks",
           "learnable: `true`; off-by-one is not supported", "vanilla learnable"),
      rule("--squared-relu", none, "model.activation", "`squared_relu`"),
      rule("--openai-gelu", none, "model.activation", "`gelu_tanh`"),
      rule("--no-bias-gelu-fusion", none, "model.activation",
           "accepted with a note: Trireme chooses kernels itself; the fused kernel computes the "
           "tanh approximation, the other one `gelu_erf`, unless --openai-gelu"),
      rule("--disable-bias-linear", none, "model.bias, model.qkv_bias, model.activation",
           "`false`; GELU is then `gelu_erf`, as in Megatron's unfused kernel"),
      rule("--add-qkv-bias", none, "model.qkv_bias", "`true`"),
      rule("--qk-layernorm", none, "model.qk_norm",
           "`true`; with --normalization RMSNorm, because Trireme does not center heads"),
      rule("--window-size", text, "model.attention_window",
           "`(LEFT,0)`: LEFT + 1 positions, itself included; -1: all"),
      rule("--window-attn-skip-freq", text, "model.window_layers",
           "with --window-size: a number N, every N-th layer has full attention, or a list such as "
           "`[1,1,0]*8` with 1 for a layer with sliding-window attention"),
      rule("--multi-latent-attention", none,
           "model.kv_lora_rank, model.q_lora_rank, model.qk_nope_head_dim, "
           "model.qk_rope_head_dim, model.v_head_dim, model.position",
           "with --qk-layernorm, because its small norms are always present, and rope positions"),
      rule("--kv-lora-rank", integer, "model.kv_lora_rank",
           "with --multi-latent-attention, like the following flags; absent: 32"),
      rule("--q-lora-rank", integer, "model.q_lora_rank", ""),
      rule("--qk-head-dim", integer, "model.qk_nope_head_dim", "absent: 128"),
      rule("--qk-pos-emb-head-dim", integer, "model.qk_rope_head_dim", "absent: 64"),
      rule("--v-head-dim", integer, "model.v_head_dim", "absent: 128"),
      rule("--rope-type", choice, "model.rope_scaling",
           "`yarn` by default with --multi-latent-attention", "rope yarn"),
      rule("--rotary-scaling-factor", number, "model.rope_scaling_factor", "of `yarn`; absent: 1"),
      rule("--yarn-original-max-position-embeddings", integer, "model.rope_original_length",
           "with --position-embedding-type yarn, like the following flags; absent: 4096"),
      rule("--yarn-beta-fast", number, "model.rope_beta_fast", "absent: 32"),
      rule("--yarn-beta-slow", number, "model.rope_beta_slow", "absent: 1"),
      rule("--yarn-correction-range-round-to-int", none, "model.rope_truncate",
           "`true`, as absent"),
      rule("--no-yarn-correction-range-round-to-int", none, "model.rope_truncate", "`false`"),
      rule("--hybrid-layer-pattern", text,
           "model.num_layers, model.mlp_layers, model.linear_layers, moe.layers, "
           "parallel.stage_layers",
           "of pretrain_hybrid.py: attention (`*`), MLPs (`-`), experts (`E`), Mamba-2 (`M`, with "
           "--load) and the ends of stages (`|`); other layers are rejected"),
      rule("--hybrid-override-pattern", text,
           "model.num_layers, model.mlp_layers, model.linear_layers, moe.layers, "
           "parallel.stage_layers",
           "older name"),
      rule("--mamba-state-dim", integer, "model.linear_key_head_dim", "with Mamba; absent: 128"),
      rule("--mamba-head-dim", integer, "model.linear_value_head_dim", "with Mamba; absent: 64"),
      rule("--mamba-num-groups", integer, "model.linear_key_heads", "with Mamba; absent: 8"),
      rule("--mamba-num-heads", integer, "model.linear_value_heads",
           "with Mamba; absent: twice --hidden-size over --mamba-head-dim"),
      rule("--is-hybrid-model", none, "model.num_layers", "only with --hybrid-layer-pattern"),
      rule("--mscale", number, "model.rope_attention_factor",
           "of `yarn`: factor applied to rotary tables, with --mscale-all-dim; absent: 1"),
      rule("--mscale-all-dim", number, "model.attention_scale, model.rope_attention_factor",
           "absent: 0"),
      turns("--untie-embeddings-and-output-weights", "model.tie_embeddings", "false", "true"),
      to_key("--make-vocab-size-divisible-by", integer, "model.vocab_multiple", "128"),
      to_key("--hidden-dropout", number, "model.hidden_dropout", "0.1"),
      to_key("--attention-dropout", number, "model.attention_dropout", "0.1"),
      to_key("--init-method-std", number, "model.init_std", "0.02"),
      refused("--init-method-xavier-uniform", none,
              "weights are drawn from a normal distribution: remove it"),
      ignored("--no-initialization", none, "loaded weights are not initialized first"),
      ignored("--pad-vocab-size-to", integer,
              "padding is neither trained nor stored; model.vocab_multiple pads in memory"),
      rule("--embed-layernorm", none, "model.embedding_norm",
           "not supported with learned positions, which Megatron adds after that norm"),
      refused("--embedding-weights-in-fp32", none, "the embedding uses the compute data type"),
      rule("--mtp-num-layers", integer, "model.mtp_layers", "multi-token prediction; absent: 0"),
      rule("--mtp-loss-scaling-factor", number, "model.mtp_loss_scale",
           "has an effect only with --mtp-num-layers; absent: 0.1"),
      bert_only(turns("--bert-no-binary-head", "model.order_head", "false", "true")),
      rule("--spec", texts, "model.family",
           "`local`, or that of hybrid models with --hybrid-layer-pattern; other Python modules "
           "are rejected"),
      rule("--use-mup", none, "model.mup_base_hidden_size, model.attention_scale",
           "maximal-update parametrization, with the scale of attention in numbers"),
      rule("--mup-base-hidden-size", integer, "model.mup_base_hidden_size",
           "with --use-mup; absent: --hidden-size"),
      ignored("--mup-width-mult", number,
              "is --hidden-size over --mup-base-hidden-size whatever is given, as in Megatron"),
      rule("--mup-embedding-mult", number, "model.embedding_multiplier", "with --use-mup"),
      rule("--mup-output-mult", number, "model.logit_multiplier",
           "with --use-mup; 1: the inverse of the width"),
      rule("--mup-base-head-dim", number, "model.attention_scale", "with --use-mup"),
      rule("--mup-attn-scale-power", number, "model.attention_scale", "with --use-mup"),
      refused("--yaml-cfg", text, "use the flags instead"),
  };
  add_refused(
      flags, kOneInit,
      "--embedding-init-method-std=X --word-embedding-init-std=X --adjust-word-embedding-init");
  add_refused(flags, kOtherModel, "--decoder-num-layers=N");
  add_refused(flags, kOtherModel,
              "--mtp-standalone --mtp-use-repeated-layer --mtp-detach-heads --mtp-hsm "
              "--mtp-hybrid-override-pattern=TEXT --qk-l2-norm --attention-output-gate "
              "--experimental-attention-variant=TEXT --enable-mhc-connections "
              "--heterogeneous-layers-config-path=TEXT "
              "--heterogeneous-layers-config-encoded-json=TEXT");
  add_ignored(flags, "has an effect only with --experimental-attention-variant",
              "--dsa-indexer-n-heads=N --dsa-indexer-head-dim=N --dsa-indexer-topk=N "
              "--dsa-indexer-topk-freq=N --dsa-indexer-skip-topk-offset=N "
              "--dsa-indexer-loss-coeff=X --dsa-indexer-use-sparse-loss --dsa-kernel-backend=TEXT "
              "--dsa-indexer-rope-interleaved --no-dsa-indexer-rotate-activation "
              "--disable-dsa-indexer-rotate-activation --no-dsa-indexer-scoring-relu "
              "--disable-dsa-indexer-scoring-relu --dsa-indexer-k-norm-epsilon=X "
              "--dsa-indexer-k-norm-fp32 --linear-conv-kernel-dim=N --linear-key-head-dim=N "
              "--linear-value-head-dim=N --linear-num-key-heads=N --linear-num-value-heads=N "
              "--linear-attention-freq=TEXT");
  add_ignored(flags, "the scan of Mamba always has states in fp32",
              "--disable-mamba-mem-eff-path --mamba-training-ssm-states-dtype=TEXT");
  add_ignored(flags, "has an effect only with layers that --hybrid-layer-pattern may not have here",
              "--gdp-num-householder=N --gdp-cutedsl-kernel "
              "--gdp-num-chunk-states-to-recompute=N");
  add_ignored(flags, "has an effect only with --enable-mhc-connections",
              "--mhc-num-residual-streams=N --mhc-sinkhorn-iterations=N "
              "--mhc-init-gating-factor=X --mhc-recompute-layer-num=N");
  add_ignored(flags, "has an effect only with --position-embedding-type mrope or relative",
              "--mrope-section=N... --relative-attention-num-buckets=N "
              "--relative-attention-max-distance=N");
  add_ignored(flags, "there is one implementation", "--use-mcore-models --use-legacy-models");
  return flags;
}

}  // namespace trireme::megatron
