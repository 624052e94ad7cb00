// Flags of the model.
#include "importers/megatron/flags_make.h"

namespace trireme::megatron {
namespace {

constexpr const char* kOtherModel = "belongs to a model that Trireme does not have";
constexpr const char* kOneInit = "all weights are drawn with model.init_std";

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
      to_key("--kv-channels", integer, "model.head_dim"),
      rule("--group-query-attention", none, "model.num_kv_heads",
           "num_kv_heads is --num-query-groups, or 1; without it every head has its own"),
      rule("--num-query-groups", integer, "model.num_kv_heads",
           "has an effect only with --group-query-attention"),
      rule("--num-key-value-heads", integer, "model.num_kv_heads", "Megatron-DeepSpeed's name"),
      rule("--position-embedding-type", choice, "model.position",
           "absent: `learned`; other types are refused", "learned_absolute rope alibi none"),
      rule("--use-rotary-position-embeddings", none, "model.position",
           "as --position-embedding-type rope"),
      rule("--no-position-embedding", none, "model.position",
           "as --position-embedding-type none, unless rotary"),
      to_key("--rotary-base", number, "model.rope_base", "10000"),
      to_key("--rotary-percent", number, "model.rope_percent", "1.0"),
      to_key("--rotary-position-embeddings-theta", number, "model.rope_base", "",
             "Megatron-DeepSpeed's name of --rotary-base"),
      refused("--rotary-interleaved", none, "rotary pairs are the two halves of a head here"),
      rule("--no-rope-freq", text, "model.no_rope_layers",
           "a number N, every N-th layer has no positions, or a list such as `([0]*3+[1])*8` with "
           "1 where a layer has none; 0: all have them"),
      rule("--rotary-seq-len-interpolation-factor", integer,
           "model.rope_scaling, model.rope_scaling_factor", "above 1: `linear` with this factor"),
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
      to_key("--layernorm-epsilon", number, "model.norm_eps", "", "its older name"),
      ignored("--apply-layernorm-1p", none,
              "the same function; checkpoints hold the scale itself, not its distance from 1"),
      refused("--apply-residual-connection-post-layernorm", none,
              "residuals go round the normalization here"),
      rule("--swiglu", none, "model.activation", "`swiglu`"),
      rule("--glu-activation", choice, "model.activation, model.ffn_hidden_size",
           "`swiglu`; as in BigScience's fork, --ffn-hidden-size is then 4 times --hidden-size "
           "unless it is given",
           "swiglu"),
      rule("--squared-relu", none, "model.activation", "`squared_relu`"),
      rule("--openai-gelu", none, "model.activation", "`gelu_tanh`"),
      rule("--no-bias-gelu-fusion", none, "model.activation",
           "accepted, with a note: kernels are chosen here; the fused kernel is the tanh form, the "
           "other one `gelu_erf`, unless --openai-gelu"),
      rule("--disable-bias-linear", none, "model.bias, model.qkv_bias, model.activation",
           "`false`; GELU is then `gelu_erf`, as Megatron's unfused kernel"),
      rule("--add-qkv-bias", none, "model.qkv_bias", "`true`"),
      rule("--qk-layernorm", none, "model.qk_norm",
           "`true`; with --normalization RMSNorm, since heads are never centered here"),
      rule("--window-size", text, "model.attention_window",
           "`(LEFT,0)`: LEFT + 1 positions, itself included; -1: all"),
      rule("--window-attn-skip-freq", text, "model.window_layers",
           "with --window-size: a number N, every N-th layer attends to all, or a list such as "
           "`[1,1,0]*8` with 1 where a layer has the window"),
      rule("--multi-latent-attention", none,
           "model.kv_lora_rank, model.q_lora_rank, model.qk_nope_head_dim, "
           "model.qk_rope_head_dim, model.v_head_dim, model.position",
           "with --qk-layernorm, since its small norms are always there, and positions by rope"),
      rule("--kv-lora-rank", integer, "model.kv_lora_rank",
           "with --multi-latent-attention, as the following ones; absent: 32"),
      rule("--q-lora-rank", integer, "model.q_lora_rank", ""),
      rule("--qk-head-dim", integer, "model.qk_nope_head_dim", "absent: 128"),
      rule("--qk-pos-emb-head-dim", integer, "model.qk_rope_head_dim", "absent: 64"),
      rule("--v-head-dim", integer, "model.v_head_dim", "absent: 128"),
      rule("--rope-type", choice, "model.rope_scaling",
           "`yarn` by default with --multi-latent-attention", "rope yarn"),
      rule("--rotary-scaling-factor", number, "model.rope_scaling_factor",
           "of `yarn`, whose original length is Megatron's 4096; absent: 1"),
      rule("--mscale", number, "model.rope_attention_factor",
           "of `yarn`: what rotary tables are multiplied by, with --mscale-all-dim; absent: 1"),
      rule("--mscale-all-dim", number, "model.attention_scale, model.rope_attention_factor",
           "absent: 0"),
      turns("--untie-embeddings-and-output-weights", "model.tie_embeddings", "false", "true"),
      to_key("--make-vocab-size-divisible-by", integer, "model.vocab_multiple", "128"),
      to_key("--hidden-dropout", number, "model.hidden_dropout", "0.1"),
      to_key("--attention-dropout", number, "model.attention_dropout", "0.1"),
      to_key("--init-method-std", number, "model.init_std", "0.02"),
      refused("--init-method-xavier-uniform", none,
              "weights are drawn from a normal distribution; leave it out"),
      ignored("--no-initialization", none, "weights that are loaded are not initialized first"),
      ignored("--pad-vocab-size-to", integer,
              "padding is never trained nor stored; model.vocab_multiple pads in memory"),
      rule("--embed-layernorm", none, "model.embedding_norm",
           "not with learned positions, which Megatron adds after that norm"),
      refused("--embedding-weights-in-fp32", none, "the embedding has the compute type"),
      rule("--mtp-num-layers", integer, "model.mtp_layers", "multi-token prediction; absent: 0"),
      rule("--mtp-loss-scaling-factor", number, "model.mtp_loss_scale",
           "has an effect only with --mtp-num-layers; absent: 0.1"),
      bert_only(turns("--bert-no-binary-head", "model.order_head", "false", "true")),
      refused("--spec", texts, "a module of Python: give the flags that say the same"),
      refused("--yaml-cfg", text, "bring the flags instead"),
  };
  add_refused(flags, kOneInit, "--word-embedding-init-std=X --adjust-word-embedding-init");
  add_refused(flags, kOtherModel, "--decoder-num-layers=N");
  add_ignored(flags, "there is one implementation", "--use-mcore-models --use-legacy-models");
  return flags;
}

}  // namespace trireme::megatron
