// The keys of [model].
#include "config/families.h"
#include "config/fields/row.h"
#include "config/presets.h"

namespace trireme {

namespace {

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : all_presets()) names.emplace_back(preset.name);
  return names;
}

FieldLimits family_limits() {
  FieldLimits limits = one_of(family_names());
  limits.added = added_family_names;
  return limits;
}

}  // namespace

std::vector<Field> model_fields() {
  return {
      FIELD(model, preset, one_of(preset_names()), "",
            "sizes of a published model, which other keys of [model] override; \"\": none"),
      FIELD(model, family, family_limits(), "",
            "model family; determines the defaults that are \"by family\"")
          .also("model_type arch"),
      FIELD(model, num_layers, between(0, kManyLayers), "layers",
            "number of transformer blocks; required")
          .also("n_layer n_layers num_hidden_layers layers depth"),
      FIELD(model, hidden_size, between(0, kWide), "", "width of the residual stream; required")
          .also("n_embd dim d_model embed_dim"),
      FIELD(model, num_heads, between(0, kWide), "", "attention heads; required")
          .of_weights()
          .also("n_head n_heads num_attention_heads"),
      FIELD(model, num_kv_heads, between(0, kWide), "",
            "key and value heads, each shared by num_heads / num_kv_heads queries; 0: num_heads")
          .of_weights()
          .also("n_kv_heads num_key_value_heads num_query_groups"),
      FIELD(model, head_dim, between(0, kWide), "", "width of a head; 0: hidden_size / num_heads")
          .of_weights(),
      FIELD(model, kv_lora_rank, between(0, kWide), "",
            "multi-head latent attention (DeepSeek): rank of the joint compression of keys and "
            "values; 0: standard attention"),
      FIELD(model, q_lora_rank, between(0, kWide), "",
            "multi-head latent attention: rank of the compression of queries; 0: no compression"),
      FIELD(model, qk_nope_head_dim, between(0, kWide), "",
            "multi-head latent attention: head dimensions of queries and keys without rotary "
            "embedding"),
      FIELD(model, qk_rope_head_dim, between(0, kWide), "",
            "multi-head latent attention: head dimensions with rotary embedding, whose keys all "
            "heads share; head_dim is the sum of both")
          .of_weights(),
      FIELD(model, v_head_dim, between(0, kWide), "",
            "multi-head latent attention: head dimension of values, at most head_dim; 0: "
            "qk_nope_head_dim"),
      FIELD(model, ffn_hidden_size, between(0, kWide), "",
            "inner width of the MLP; 0: 4 hidden_size, or with a gate two thirds of that, rounded "
            "down to a multiple of 64")
          .also("intermediate_size ffn_dim d_ff"),
      FIELD(model, seq_length, between(0, kManyPositions), "tokens", "length of a sample; required")
          .also("seq_len block_size context_length max_seq_len"),
      FIELD(model, max_positions, between(0, kManyPositions), "tokens",
            "maximum sequence length of the model; 0: seq_length")
          .also("n_positions max_position_embeddings"),
      FIELD(model, vocab_size, between(0, kManyTokens), "tokens",
            "vocabulary size; 0: from the tokenizer; with tokenizer null: the number of ids plus "
            "one for the end of a document"),
      FIELD(model, vocab_multiple, between(1, kWide), "",
            "the vocabulary is padded in memory to a multiple of this times parallel.tp; "
            "checkpoints never contain the padding"),
      FIELD(
          model, position, any(), "",
          "position embedding; alibi adds a bias proportional to the distance to attention scores "
          "(Press et al. 2022)")
          .by_family()
          .of_weights(),
      FIELD(model, rope_base, above(0), "", "base of the rotary frequencies")
          .of_weights()
          .also("rope_theta"),
      FIELD(model, rope_base_local, between(0, 1e12), "",
            "base of the rotary frequencies in layers with sliding-window attention, to which "
            "rope_scaling does not apply (Gemma 3, OLMo 3); 0: same as the other layers")
          .of_weights()
          .also("rotary_base_local rope_local_base_freq"),
      FIELD(model, rope_percent, {.min = 0, .max = 1, .above_min = true}, "",
            "share of head dimensions that are rotated")
          .of_weights(),
      FIELD(model, rope_scaling, any(), "",
            "scaling of rotary frequencies for sequences longer than those of the original model: "
            "divide all of them (linear), only the low ones (llama3, yarn), or each by its own "
            "number (longrope); dynamic: none up to max_positions, beyond which it is rejected")
          .of_weights(),
      FIELD(model, rope_scaling_factor, between(1, 1e6), "",
            "divisor of the rotary frequencies; longrope: the longest sequence divided by "
            "rope_original_length, which only rope_attention_factor depends on")
          .of_weights(),
      FIELD(model, rope_low_freq_factor, above(0), "",
            "llama3: wavelengths above rope_original_length divided by this are scaled by the full "
            "factor")
          .of_weights(),
      FIELD(model, rope_high_freq_factor, above(0), "",
            "llama3: wavelengths below rope_original_length divided by this are not scaled")
          .of_weights(),
      FIELD(model, rope_beta_fast, above(0), "turns",
            "yarn: dimensions with more rotations than this within rope_original_length are not "
            "scaled")
          .of_weights(),
      FIELD(model, rope_beta_slow, above(0), "turns",
            "yarn: dimensions with fewer rotations than this are scaled by the full factor")
          .of_weights(),
      FIELD(model, rope_attention_factor, between(0, 100), "",
            "yarn, longrope: factor applied to queries and keys; 0: 0.1 ln(rope_scaling_factor) + "
            "1, and for longrope sqrt(1 + ln(rope_scaling_factor) / ln(rope_original_length))")
          .of_weights(),
      FIELD(model, rope_truncate, any(), "",
            "yarn: round the bounds of the interpolated range to whole dimensions")
          .of_weights(),
      FIELD(model, rope_original_length, between(1, kManyTokens), "tokens",
            "llama3, yarn, longrope, rope_query_beta: original sequence length of the model")
          .of_weights(),
      FIELD(model, rope_short_factors, {.min = 0, .max = 1e6, .above_min = true}, "",
            "longrope: divisors of the rotary frequencies, one for each, in sequences of at most "
            "rope_original_length (Phi-3, Phi-4-mini)")
          .of_weights()
          .also("short_factor"),
      FIELD(model, rope_long_factors, {.min = 0, .max = 1e6, .above_min = true}, "",
            "longrope: the same for longer sequences; training uses those of seq_length")
          .of_weights()
          .also("long_factor"),
      FIELD(model, rope_query_beta, between(0, 100), "",
            "queries are multiplied by 1 + this times ln(1 + floor(position / "
            "rope_original_length)) (Ministral 3); 0: off")
          .of_weights()
          .also("llama_4_scaling_beta"),
      FIELD(model, no_rope_layers, between(0, kManyLayers), "",
            "layers whose attention has no position embedding (NoPE), counted from 0 (SmolLM3)")
          .of_weights()
          .also("no_rope_freq"),
      FIELD(model, no_rope_query_beta, between(0, 100), "",
            "in these layers queries are multiplied by 1 + this times ln(1 + floor((position + 1) "
            "/ no_rope_query_length)) (Llama 4); 0: off")
          .of_weights()
          .also("attn_scale"),
      FIELD(model, no_rope_query_length, between(1, kManyTokens), "tokens",
            "no_rope_query_beta: positions after which queries grow by another step")
          .of_weights()
          .also("floor_scale"),
      FIELD(model, norm, any(), "", "normalization").by_family().of_weights(),
      FIELD(model, norm_eps, {.min = 0, .max = 1, .above_min = true, .below_max = true}, "",
            "epsilon added to the variance; bert: 1e-12")
          .of_weights()
          .also("rms_norm_eps layer_norm_epsilon"),
      FIELD(model, latent_norm_eps, between(0, 1), "",
            "epsilon of the norms within multi-head latent attention; 0: norm_eps")
          .of_weights(),
      FIELD(model, activation, any(), "",
            "activation of the MLP; swiglu and geglu have a gate, of silu and of gelu_tanh")
          .by_family()
          .of_weights()
          .also("hidden_act"),
      FIELD(
          model, activation_clamp, between(0, 1e6), "",
          "swiglu: upper limit of the gate, and limit of the absolute value of the linear part, as "
          "in gpt-oss; 0: no limit")
          .of_weights()
          .also("swiglu_limit"),
      FIELD(model, gate_alpha, {.min = 0, .max = 100, .above_min = true}, "",
            "swiglu: the gate is gate x sigmoid(this x gate) (gpt-oss: 1.702)")
          .of_weights(),
      FIELD(model, gate_offset, between(-100, 100), "",
            "swiglu: offset added to the linear part (gpt-oss: 1)")
          .of_weights(),
      FIELD(model, bias, any(), "", "biases of linear layers").by_family(),
      FIELD(model, qkv_bias, any(), "",
            "bias of the query, key and value projection; follows model.bias unless set")
          .by_family(),
      FIELD(model, qk_norm, any(), "",
            "QK norm: normalize queries and keys (RMSNorm with norm_eps)")
          .of_weights(),
      FIELD(model, qk_norm_over, any(), "",
            "extent of the QK norm: each head separately, as in Qwen3, or all heads of a position "
            "together, as in OLMo2")
          .of_weights(),
      FIELD(model, qk_l2_norm, any(), "",
            "QK norm without weights, in layers with rotary positions only (Llama 4)")
          .of_weights(),
      FIELD(model, zero_centered_norms, any(), "",
            "norms multiply by 1 + weight, and their weights start at zero (Gemma)")
          .of_weights()
          .formerly("zero_centred_norms"),
      FIELD(model, zero_centered_qk_norms, any(), "",
            "the same for the norms of queries and keys (Gemma 3)")
          .of_weights(),
      FIELD(model, embedding_norm, any(), "", "normalize the embedding (BLOOM)"),
      FIELD(model, scale_embedding, any(), "",
            "multiply the embedding by the square root of hidden_size (Gemma)")
          .of_weights(),
      FIELD(model, embedding_multiplier, above(0), "", "factor applied to the embedding (Granite)")
          .of_weights(),
      FIELD(model, residual_multiplier, above(0), "",
            "factor applied to the outputs of attention and MLP before they are added to the "
            "residual stream (Granite)")
          .of_weights(),
      FIELD(model, logit_multiplier, above(0), "",
            "factor applied to the output logits, before logit_soft_cap (Granite: 1 / "
            "logits_scaling)")
          .of_weights(),
      FIELD(model, tie_embeddings, any(), "",
            "share the weights of the token embedding and the output head")
          .by_family()
          .also("tie_word_embeddings"),
      FIELD(
          model, norm_placement, any(), "",
          "norms before attention and MLP (pre), after them (output, as in OLMo2), both before and "
          "after (as in Gemma 2), or after the residual additions (post, bert only, as in the "
          "original BERT)")
          .of_weights(),
      FIELD(model, attention_scale, between(0, 100), "",
            "factor applied to attention scores; 0: 1 / sqrt(head_dim)")
          .of_weights(),
      FIELD(model, attention_soft_cap, between(0, 1e6), "",
            "soft cap of attention scores: cap x tanh(score / cap), as in Gemma 2; 0: off")
          .of_weights(),
      FIELD(model, logit_soft_cap, between(0, 1e6), "", "soft cap of the output logits; 0: off")
          .of_weights(),
      FIELD(model, attention_window, between(0, kManyPositions), "tokens",
            "sliding-window attention: number of most recent positions that each position attends "
            "to, including itself; 0: all")
          .of_weights()
          .also("sliding_window window_size"),
      FIELD(model, window_layers, between(0, kManyLayers), "",
            "layers with sliding-window attention, counted from 0; the others attend to all "
            "positions; []: every layer")
          .of_weights(),
      FIELD(model, window_chunks, any(), "",
            "instead of a sliding window each position attends to those of its own chunk of "
            "attention_window positions, up to itself (Llama 4)")
          .of_weights(),
      FIELD(model, attention_sinks, any(), "",
            "attention sinks: each head has an additional learned logit with value zero in the "
            "softmax (gpt-oss)"),
      FIELD(model, attention_gate, any(), "",
            "each head's output is multiplied by the sigmoid of an additional projection of the "
            "layer's input (Qwen3-Next)")
          .also("attn_output_gate"),
      FIELD(model, linear_layers, between(0, kManyLayers), "",
            "layers that have linear attention instead of attention, counted from 0")
          .of_weights(),
      FIELD(model, linear_kind, any(), "",
            "linear attention: a gated delta net (Qwen3-Next), or Mamba-2 (Granite 4, Nemotron-H), "
            "whose keys are called B, queries C, and values x")
          .of_weights(),
      FIELD(model, linear_key_heads, between(0, kWide), "",
            "linear attention: heads of queries and keys; with mamba2 its groups")
          .of_weights()
          .also("linear_num_key_heads mamba_n_groups"),
      FIELD(model, linear_value_heads, between(0, kWide), "",
            "linear attention: heads of values, a multiple of linear_key_heads")
          .of_weights()
          .also("linear_num_value_heads mamba_n_heads"),
      FIELD(model, linear_key_head_dim, between(0, kWide), "",
            "linear attention: width of a query and of a key; with mamba2 of its state")
          .of_weights()
          .also("mamba_d_state"),
      FIELD(model, linear_value_head_dim, between(0, kWide), "",
            "linear attention: width of a value; 0: linear_key_head_dim")
          .of_weights()
          .also("mamba_d_head"),
      FIELD(model, linear_conv_width, between(1, 16), "tokens",
            "linear attention: width of the causal convolution of queries, keys and values")
          .of_weights()
          .also("linear_conv_kernel_dim mamba_d_conv"),
      FIELD(model, linear_conv_bias, any(), "", "linear attention: bias of this convolution")
          .also("mamba_conv_bias"),
      FIELD(model, mlp_layers, between(0, kManyLayers), "",
            "layers that consist of an MLP, or of experts, alone, counted from 0; all others then "
            "consist of attention, or linear attention, alone (Nemotron-H); []: every layer has "
            "both")
          .of_weights(),
      FIELD(model, mtp_layers, between(0, 3), "",
            "multi-token prediction (DeepSeek-V3): number of modules after the last layer, each of "
            "which predicts one more token ahead in training; not used in generation and "
            "evaluation")
          .of_weights()
          .also("mtp_num_layers num_nextn_predict_layers"),
      FIELD(model, mtp_loss_scale, between(0, 1000), "",
            "weight of the mean loss of these modules in the training loss")
          .also("mtp_loss_scaling_factor"),
      FIELD(model, order_head, any(), "", "bert: include the sentence-order head and its pooler"),
      FIELD(model, token_types, any(), "",
            "bert: include the token-type embedding of the two segments; by default if order_head "
            "is true"),
      FIELD(model, hidden_dropout, fraction(), "", "dropout after embedding, attention and MLP"),
      FIELD(model, attention_dropout, fraction(), "", "dropout of attention weights"),
      FIELD(model, init_std, between(0, 100), "",
            "standard deviation of the initial weights; output projections use init_std / "
            "sqrt(2 num_layers), or with mlp_layers init_std / sqrt(num_layers)"),
      FIELD(
          model, mup_base_hidden_size, between(0, kWide), "",
          "maximal-update parametrization (Yang et al. 2022, as in Megatron-Core): hidden_size of "
          "the model that learning rates were tuned on; with m = hidden_size / this, matrices "
          "start with init_std / sqrt(m) and learn at lr / m, logits are multiplied by 1 / m, and "
          "attention is scaled by 1 / head_dim; 0: off"),
      FIELD(model, mup_base_head_dim, between(0, kWide), "",
            "with mup_base_hidden_size: head_dim of that model; scores are then multiplied by "
            "sqrt(this) / head_dim; 0: by 1 / head_dim"),
  };
}

}  // namespace trireme
