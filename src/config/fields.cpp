// The table of configuration keys.
#include "config/fields.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "config/families.h"
#include "config/presets.h"
#include "config/schedules.h"

namespace trireme {
namespace {

// Sizes and counts: far above any real run, far below where a product of two would overflow.
constexpr double kManyLayers = 1e5;
constexpr double kWide = 1 << 24;
constexpr double kManyExperts = 1024;       // the router holds the scores of a token on its stack
constexpr double kManyTokens = 1LL << 31;   // token ids are 32-bit
constexpr double kManyPositions = 1 << 24;  // attention compares positions as fp32
constexpr double kCount = 1e15;

template <class T>
FieldSlot slot_of(T* value) {
  if constexpr (Choice<T>)
    return ChoiceSlot{reinterpret_cast<std::uint8_t*>(value), choice_names(T{})};
  else
    return value;
}

FieldLimits any() {
  return {};
}
FieldLimits one_of(std::vector<std::string> allowed) {
  return {.allowed = std::move(allowed)};
}
FieldLimits between(double min, double max) {
  return {.min = min, .max = max};
}
FieldLimits count() {
  return between(0, kCount);
}
FieldLimits at_least(double min) {
  return {.min = min};
}
FieldLimits above(double min) {
  return {.min = min, .above_min = true};
}
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
FieldLimits fraction() {
  return {.min = 0, .max = 1, .below_max = true};
}

#define FIELD(section, name, ...)                                                                  \
  {                                                                                                \
#section, #name, [](Config & c) -> FieldSlot { return slot_of(&c.section.name); }, __VA_ARGS__ \
  }
// A key of [moe], which lies within the model.
#define EXPERT_FIELD(name, ...)                                                                  \
  {                                                                                              \
    "moe", #name, [](Config& c) -> FieldSlot { return slot_of(&c.model.moe.name); }, __VA_ARGS__ \
  }
constexpr bool kByFamily = true;

std::vector<Field> build_table() {
  return {
      FIELD(run, dir, any(), "", "folder for checkpoints, metrics and logs"),
      FIELD(run, seed, count(), "", "seed of initialization, data order and dropout"),
      FIELD(run, precision, any(), "",
            "arithmetic of the model; bf16 and fp16 keep fp32 master weights"),
      FIELD(run, gradient_dtype, any(), "",
            "type of the gradient sums; bf16 halves their memory and traffic and rounds "
            "stochastically; fp64 runs sum in fp64"),
      FIELD(run, device, any(), "", "device that computes; the emulated GPU is for tests"),
      FIELD(
          run, memory, any(), "",
          "memory that a process may plan to use, as in \"64GiB\"; \"\": its share of the machine"),

      FIELD(run, peak_tflops, between(0, 1e9), "TFLOP/s",
            "what a device computes at most, which the MFU of the log is a share of; 0: as its "
            "machine file says, where the device is known"),

      FIELD(model, preset, one_of(preset_names()), "",
            "sizes of a published model, which other keys of [model] override; \"\": none"),
      FIELD(model, family, family_limits(), "",
            "kind of model; sets the defaults that are \"by family\""),
      FIELD(model, num_layers, between(0, kManyLayers), "layers",
            "number of transformer blocks; required"),
      FIELD(model, hidden_size, between(0, kWide), "", "width of the residual stream; required"),
      FIELD(model, num_heads, between(0, kWide), "", "attention heads; required"),
      FIELD(model, num_kv_heads, between(0, kWide), "",
            "key and value heads, each shared by num_heads / num_kv_heads queries; 0: num_heads"),
      FIELD(model, head_dim, between(0, kWide), "", "width of a head; 0: hidden_size / num_heads"),
      FIELD(
          model, kv_lora_rank, between(0, kWide), "",
          "latent attention (DeepSeek): keys and values of all heads come from this many numbers of "
          "a position; 0: ordinary attention"),
      FIELD(model, q_lora_rank, between(0, kWide), "",
            "latent attention: queries come from this many numbers; 0: from the position itself"),
      FIELD(model, qk_nope_head_dim, between(0, kWide), "",
            "latent attention: width of a query and a key that positions do not turn"),
      FIELD(model, qk_rope_head_dim, between(0, kWide), "",
            "latent attention: width that they turn, whose keys all heads share; head_dim is the "
            "sum of both"),
      FIELD(model, v_head_dim, between(0, kWide), "",
            "latent attention: width of a value, at most head_dim; 0: qk_nope_head_dim"),
      FIELD(model, ffn_hidden_size, between(0, kWide), "",
            "inner width of the MLP; 0: 4 hidden_size, with a gate two thirds of it rounded down "
            "to 64"),
      FIELD(model, seq_length, between(0, kManyPositions), "tokens",
            "length of a sample; required"),
      FIELD(model, max_positions, between(0, kManyPositions), "tokens",
            "longest sequence that the model can take; 0: seq_length"),
      FIELD(model, vocab_size, between(0, kManyTokens), "tokens",
            "size of the vocabulary; 0: from the tokenizer; with tokenizer null: the number of ids "
            "plus "
            "one, which ends documents"),
      FIELD(model, vocab_multiple, between(1, kWide), "",
            "computation pads the vocabulary to a multiple of this times parallel.tp; "
            "checkpoints never hold the padding"),
      FIELD(
          model, position, any(), "",
          "position encoding; alibi adds a slope times the distance to scores (Press et al. 2022)",
          kByFamily),
      FIELD(model, rope_base, above(0), "", "base of the rotary frequencies"),
      FIELD(model, rope_percent, {.min = 0, .max = 1, .above_min = true}, "",
            "share of each head that is rotated"),
      FIELD(
          model, rope_scaling, any(), "",
          "rotary frequencies for sequences longer than those of the original model: divide all of "
          "them (linear), or the low ones (llama3, yarn)"),
      FIELD(model, rope_scaling_factor, between(1, 1e6), "", "divisor of the rotary frequencies"),
      FIELD(model, rope_low_freq_factor, above(0), "",
            "llama3: waves longer than rope_original_length over this are divided by the full "
            "factor"),
      FIELD(model, rope_high_freq_factor, above(0), "",
            "llama3: waves shorter than rope_original_length over this stay as they are"),
      FIELD(model, rope_beta_fast, above(0), "turns",
            "yarn: pairs that turn more often within rope_original_length keep their frequency"),
      FIELD(model, rope_beta_slow, above(0), "turns",
            "yarn: pairs that turn less often are divided by the full factor"),
      FIELD(model, rope_attention_factor, between(0, 100), "",
            "yarn: multiplies queries and keys; 0: 0.1 ln(rope_scaling_factor) + 1"),
      FIELD(model, rope_truncate, any(), "",
            "yarn: the bounds of the pairs that are divided in part are whole pairs"),
      FIELD(model, rope_original_length, between(1, kManyTokens), "tokens",
            "llama3, yarn: length of the sequences that the model first saw"),
      FIELD(model, norm, any(), "", "normalization", kByFamily),
      FIELD(model, norm_eps, {.min = 0, .max = 1, .above_min = true, .below_max = true}, "",
            "added to the variance; bert: 1e-12"),
      FIELD(model, latent_norm_eps, between(0, 1), "",
            "the same of the norms within latent attention; 0: norm_eps"),
      FIELD(model, activation, any(), "",
            "activation of the MLP; swiglu and geglu have a gate, of silu and of gelu_tanh",
            kByFamily),
      FIELD(model, bias, any(), "", "biases of linear layers", kByFamily),
      FIELD(model, qkv_bias, any(), "",
            "bias of the query, key and value projection; follows model.bias unless set",
            kByFamily),
      FIELD(model, qk_norm, any(), "", "normalize queries and keys (RMSNorm with norm_eps)"),
      FIELD(model, qk_norm_over, any(), "",
            "what these norms span: each head by itself, as in Qwen3, or all heads of a position "
            "together, as in OLMo2"),
      FIELD(model, zero_centred_norms, any(), "",
            "norms multiply by 1 + weight, and their weights start at zero (Gemma)"),
      FIELD(model, embedding_norm, any(), "", "normalize the embedding (BLOOM)"),
      FIELD(model, scale_embedding, any(), "",
            "multiply the embedding by the square root of hidden_size (Gemma)"),
      FIELD(model, tie_embeddings, any(), "", "the output head is the token embedding", kByFamily),
      FIELD(
          model, norm_placement, any(), "",
          "norms before attention and MLP, after them (output, as in OLMo2), both before and after "
          "(as in Gemma 2), or (bert only) after the sums as in the original BERT"),
      FIELD(model, attention_scale, between(0, 100), "",
            "what scores of attention are multiplied by; 0: 1 / sqrt(head_dim)"),
      FIELD(model, attention_soft_cap, between(0, 1e6), "",
            "scores s of attention become cap x tanh(s / cap), as in Gemma 2; 0: they do not"),
      FIELD(model, logit_soft_cap, between(0, 1e6), "",
            "the same of the logits of the vocabulary; 0: they do not"),
      FIELD(model, attention_window, between(0, kManyPositions), "tokens",
            "newest positions that each position attends to, itself included; 0: all"),
      FIELD(model, window_layers, between(0, kManyLayers), "",
            "the layers with the window, counted from 0; the others attend to all; []: every layer "
            "has it"),
      FIELD(model, order_head, any(), "", "bert: has the sentence-order head, with its pooler"),
      FIELD(model, token_types, any(), "",
            "bert: has an embedding of the two segments; by default where order_head is true"),
      FIELD(model, hidden_dropout, fraction(), "", "dropout after embedding, attention and MLP"),
      FIELD(model, attention_dropout, fraction(), "", "dropout of attention weights"),
      FIELD(model, init_std, between(0, 100), "",
            "standard deviation of the initial weights; output projections use init_std / "
            "sqrt(2 num_layers)"),

      EXPERT_FIELD(num_experts, between(0, kManyExperts), "experts",
                   "number in each expert layer, whose MLP they replace; 0: every layer is dense"),
      EXPERT_FIELD(experts_by_layer, between(1, kManyExperts), "experts",
                   "a number for each of the expert layers instead, as [64, 64, 128] (pyramids of "
                   "experts)"),
      EXPERT_FIELD(top_k, between(1, kManyExperts), "experts",
                   "number that the router picks for a token"),
      EXPERT_FIELD(ffn_hidden_size, between(0, kWide), "",
                   "inner width of an expert; 0: model.ffn_hidden_size"),
      EXPERT_FIELD(first_layer, between(0, kManyLayers), "",
                   "first layer with experts, counted from 0"),
      EXPERT_FIELD(layer_interval, between(1, kManyLayers), "layers",
                   "from one layer with experts to the next"),
      EXPERT_FIELD(layers, between(0, kManyLayers), "",
                   "the layers with experts, counted from 0, instead of the two keys above; []: "
                   "those"),
      EXPERT_FIELD(score, any(), "", "how the router's logits become scores"),
      EXPERT_FIELD(normalize_weights, any(), "",
                   "the weights of a token's experts add up to 1 (softmax: as if taken over the "
                   "chosen ones alone; with sigmoid a single one remains its score); false: they "
                   "are the scores"),
      EXPERT_FIELD(scaling_factor, between(1e-6, 1e6), "", "multiplies the weights of the experts"),
      EXPERT_FIELD(num_groups, between(1, kManyExperts), "groups",
                   "equal groups of neighboring experts, of which a token uses some"),
      EXPERT_FIELD(top_groups, between(1, kManyExperts), "groups",
                   "number that a token may use, those whose best moe.top_k / top_groups scores "
                   "have the largest sums; 1 with one group: no limit"),
      EXPERT_FIELD(expert_bias, any(), "",
                   "sigmoid: a bias on the scores that choose, not on the weights; each step moves "
                   "it towards an even load"),
      EXPERT_FIELD(bias_update_rate, between(0, 1), "", "what a step adds to or takes from a bias"),
      EXPERT_FIELD(shared_ffn_hidden_size, between(0, kWide), "",
                   "inner width of an MLP that all tokens pass next to their experts; 0: none"),
      EXPERT_FIELD(shared_gate, any(), "",
                   "the shared expert is multiplied by the sigmoid of a number for each token"),
      EXPERT_FIELD(residual, any(), "",
                   "the shared expert and the sum of the others are mixed by two shares that each "
                   "token learns, instead of added (DeepSpeed's residual experts)"),
      EXPERT_FIELD(aux_loss, any(), "",
                   "what the balance of the experts is measured over: each sequence, each "
                   "micro-batch, which the layout changes, or the whole batch, by the choices of "
                   "the step before"),
      EXPERT_FIELD(aux_loss_coeff, between(0, 1e6), "",
                   "weight of the balance loss of a layer, which is this at perfect balance; 0: "
                   "off"),
      EXPERT_FIELD(z_loss_coeff, between(0, 1e6), "",
                   "weight of the squared log-sum-exp of the router's logits; 0: off"),
      EXPERT_FIELD(capacity_factor, between(0, 1e6), "",
                   "most tokens of a sequence that an expert takes in training, in shares of an "
                   "even load; 0: all, none is dropped"),
      EXPERT_FIELD(drop_policy, any(), "",
                   "whom a full expert keeps: tokens with the largest weights, or the earliest"),

      FIELD(data, path, any(), "",
            "indexed datasets (path without .bin and .idx), or a blend: weight, path, weight, path "
            "and so on"),
      FIELD(data, train_path, any(), "", "like path, for training alone; excludes path"),
      FIELD(data, valid_path, any(), "", "like path, for validation alone; excludes path"),
      FIELD(data, test_path, any(), "", "like path, for testing alone; excludes path"),
      FIELD(data, split, any(), "", "shares of training, validation and test documents in path"),
      FIELD(data, sources, any(), "",
            "text to train on as it lies: files, patterns or folders of Parquet, Arrow, JSON lines "
            "or text, or a blend: weight, files, weight, files and so on; excludes path"),
      FIELD(data, valid_sources, any(), "", "like sources, for validation; excludes path"),
      FIELD(data, source_keys, any(), "",
            "column or JSON key of the texts: one for all sources or one for each"),
      FIELD(data, source_documents, any(), "", "what a document is in plain text of sources"),
      FIELD(data, shuffle_buffer, between(0, 1e9), "documents",
            "documents of a source that are shuffled among each other, read from row groups in "
            "shuffled order; 0: the order of the files"),
      FIELD(data, skip_bad_rows, any(), "",
            "sources: rows and lines without a text are passed over, not an error"),
      FIELD(data, tokenizer_threads, between(1, 1024), "threads",
            "that tokenize each source next to training"),
      FIELD(data, cache_dir, any(), "", "folder for sample orders; \"\": next to the data"),
      FIELD(data, tokenizer,
            one_of({"gpt2", "tiktoken", "hf", "bert", "bert_cased", "sentencepiece",
                    "SentencePieceTokenizer", "llama2", "null"}),
            "", "kind of tokenizer, see docs/tokenizers.md; \"\": none, set model.vocab_size"),
      FIELD(data, vocab_file, any(), "", "vocabulary of gpt2 (vocab.json) or bert (vocab.txt)"),
      FIELD(data, merge_file, any(), "", "merges of gpt2 (merges.txt)"),
      FIELD(data, tokenizer_model, any(), "",
            "file of tiktoken or sentencepiece, tokenizer.json of hf"),
      FIELD(data, tokenizer_pattern, any(), "",
            "kind of a tiktoken file, see docs/tokenizers.md; \"\": the file tells"),
      FIELD(data, prefetch, between(1, 1e6), "micro-batches",
            "number that is read ahead of training"),
      FIELD(data, reset_position_ids, any(), "", "positions start again in each document"),
      FIELD(data, reset_attention_mask, any(), "", "attention stays inside a document"),
      FIELD(data, eod_mask_loss, any(), "", "no loss where the input is the end of a document"),
      FIELD(data, mask_prob, fraction(), "", "bert: share of the tokens to predict"),
      FIELD(data, short_seq_prob, fraction(), "",
            "bert: share of the samples that are shortened on purpose"),
      FIELD(data, fim_rate, between(0, 1), "",
            "gpt: share of the documents that are rewritten to fill in the middle; 0: off"),
      FIELD(data, fim_spm_rate, between(0, 1), "",
            "share of these that have the suffix before the prefix"),
      FIELD(data, fim_prefix_token, any(), "", "token before the prefix"),
      FIELD(data, fim_middle_token, any(), "", "token before the middle"),
      FIELD(data, fim_suffix_token, any(), "", "token before the suffix"),

      FIELD(train, micro_batch_size, between(1, 1e9), "samples",
            "samples that a data-parallel rank computes at once"),
      FIELD(
          train, global_batch_size, between(0, 1e9), "samples",
          "samples of an optimizer step, on all ranks; 0: micro_batch_size times the data-parallel "
          "degree"),
      FIELD(train, rampup_batch_size, count(), "samples",
            "first batch size, increment, and samples until global_batch_size is reached"),
      FIELD(train, batch_size_schedule, any(), "",
            "sizes of the global batch as THRESHOLD:SIZE pairs, such as \"0:16 64M:32\": from "
            "this many consumed tokens on (or samples: 1000s); K, M, B, T; excludes "
            "global_batch_size"),
      FIELD(train, iters, count(), "iterations", "length of the run; excludes samples"),
      FIELD(train, samples, count(), "samples", "length of the run; excludes iters"),
      FIELD(train, tokens, count(), "tokens",
            "the run ends after the step that reaches this, if iters or samples do not end it "
            "earlier; the order of the data does not depend on it; 0: off"),
      FIELD(train, eval_interval, count(), "iterations", "interval between evaluations; 0: never"),
      FIELD(train, eval_iters, count(), "iterations", "length of an evaluation"),
      FIELD(train, log_interval, between(1, kCount), "iterations",
            "interval between lines of progress"),
      FIELD(train, exit_interval, count(), "iterations",
            "save and stop at the first multiple; 0: off"),
      FIELD(train, exit_duration_minutes, between(0, 1e9), "minutes",
            "save and stop after this time; 0: off"),
      FIELD(train, timeout_s, above(0), "seconds",
            "longest wait for other ranks; a longer one ends the run"),
      FIELD(train, trace_steps, count(), "iterations",
            "first and last iteration of a Chrome trace; []: none"),
      FIELD(train, check_nan, any(), "",
            "stop when a loss, of validation too, or a gradient is NaN or infinite"),
      FIELD(train, guard_interval, count(), "iterations",
            "interval between checks for silent corruption, which also come before each save: a "
            "micro-batch is computed twice, and states that several ranks hold are compared; 0: "
            "off"),
      FIELD(
          train, spike_policy, any(), "",
          "where the loss jumps up or is not finite; skip: without the update of that step; back: "
          "on from an earlier checkpoint with the data that follows"),
      FIELD(train, spike_window, between(8, 1e6), "iterations",
            "number of the last losses that a step's loss is compared with"),
      FIELD(train, spike_sigma, above(0), "standard deviations",
            "height above the median of these from which a loss counts as a spike"),
      FIELD(train, spike_back_steps, between(1, kCount), "iterations",
            "back: from the newest checkpoint that was saved at least so long before the spike"),

      FIELD(curriculum, schedule, any(), "",
            "how the sequence length grows to model.seq_length; samples are cut to it"),
      FIELD(curriculum, min_length, between(0, kManyTokens), "tokens", "length at the start"),
      FIELD(curriculum, iters, count(), "iterations",
            "iteration at which model.seq_length is reached"),
      FIELD(curriculum, length_step, between(1, kManyTokens), "tokens",
            "lengths are multiples of this"),
      FIELD(curriculum, root_degree, between(1, 1000), "",
            "fixed_root: 2 grows with the square root of the iteration"),

      FIELD(optimizer, name, any(), "", "update rule"),
      FIELD(optimizer, lr, at_least(0), "", "highest learning rate; required"),
      FIELD(optimizer, min_lr, at_least(0), "", "learning rate after the decay"),
      FIELD(optimizer, decay_style, any(), "",
            "shape of the decay; wsd: constant until an anneal at the end"),
      FIELD(optimizer, decay_iters, count(), "iterations",
            "iteration at which the decay ends; 0: train.iters"),
      FIELD(optimizer, decay_samples, count(), "samples",
            "sample at which the decay ends; 0: train.samples"),
      FIELD(optimizer, decay_tokens, count(), "tokens",
            "tokens after which the decay ends, which then counts tokens; excludes decay_iters and "
            "decay_samples"),
      FIELD(optimizer, warmup_iters, count(), "iterations",
            "length of the linear warm-up, with train.iters"),
      FIELD(optimizer, warmup_samples, count(), "samples",
            "length of the linear warm-up, with train.samples"),
      FIELD(optimizer, warmup_tokens, count(), "tokens",
            "length of the linear warm-up, with decay_tokens"),
      FIELD(optimizer, warmup_fraction, fraction(), "",
            "warm-up as a share of the length of the decay; excludes warmup_iters, warmup_samples "
            "and "
            "the lengths in tokens"),
      FIELD(optimizer, warmup_init_lr, at_least(0), "", "learning rate at the first step"),
      FIELD(optimizer, wsd_decay_iters, count(), "iterations", "length of the anneal of wsd"),
      FIELD(optimizer, wsd_decay_samples, count(), "samples", "length of the anneal of wsd"),
      FIELD(optimizer, wsd_decay_style, any(), "", "shape of the anneal of wsd"),
      FIELD(optimizer, weight_decay, between(0, 1e6), "",
            "decoupled decay of matrices (adamw, lion, muon), or L2 term of the gradient (adam, "
            "sgd)"),
      FIELD(optimizer, decay_vectors, any(), "",
            "whether biases and the weights of norms decay as matrices do, as PyTorch's optimizers "
            "have it where all parameters are one group"),
      FIELD(optimizer, clip_grad, at_least(0), "",
            "largest L2 norm of the gradient; a larger one is scaled down; 0: off"),
      FIELD(optimizer, beta1, fraction(), "", "decay of the first moment"),
      FIELD(optimizer, beta2, fraction(), "", "decay of the second moment"),
      FIELD(optimizer, eps, above(0), "", "added to the root of the second moment"),
      FIELD(optimizer, momentum, fraction(), "", "momentum of sgd"),
      FIELD(optimizer, lion_beta1, fraction(), "",
            "lion: share of the moment in what the step takes the sign of"),
      FIELD(optimizer, lion_beta2, fraction(), "", "lion: decay of the moment"),
      FIELD(optimizer, muon_lr, at_least(0), "",
            "muon: highest learning rate of the matrices, which changes as that of the other "
            "parameters does; 0: optimizer.lr"),
      FIELD(optimizer, muon_momentum, fraction(), "", "muon: decay of the momentum"),
      FIELD(optimizer, muon_nesterov, any(), "",
            "muon: whether the gradient joins the momentum once more (Nesterov)"),
      FIELD(optimizer, muon_steps, between(1, 100), "iterations",
            "muon: number of Newton-Schulz iterations; a multiple of 5 with quintic"),
      FIELD(optimizer, muon_coefficients, any(), "",
            "muon: polynomial of the iterations; simple: the same each time, as Keller Jordan's; "
            "quintic: five of them in turn, as Megatron's"),
      FIELD(optimizer, muon_scale, any(), "",
            "muon: factor on the update of a matrix [out, in]; match_rms: 0.2 sqrt(max(out, in)), "
            "as large as AdamW's; spectral: sqrt(max(out, in)); original: sqrt(max(1, out / in)); "
            "unit_rms: sqrt(out / in)"),
      FIELD(optimizer, muon_scale_factor, above(0), "", "muon: further factor on the update"),
      FIELD(optimizer, moment_dtype, any(), "",
            "type of the moments (sgd, muon: the momentum); bf16 halves their memory and rounds "
            "stochastically; fp64 runs keep them in fp64"),
      FIELD(optimizer, loss_scale, at_least(0), "", "fixed loss scale of fp16; 0: dynamic"),
      FIELD(optimizer, initial_loss_scale, above(0), "", "first dynamic loss scale of fp16"),
      FIELD(optimizer, min_loss_scale, above(0), "", "smallest dynamic loss scale"),
      FIELD(optimizer, loss_scale_window, between(1, kCount), "iterations",
            "number without overflow after which the scale doubles"),
      FIELD(optimizer, hysteresis, between(1, kCount), "overflows",
            "number after which the scale is halved; counted again after each doubling"),

      FIELD(fp8, recipe, any(), "",
            "how the linear layers of blocks round to 8 bits what their products read; tensorwise: "
            "one scale for a weight, and one for the activations of a sequence; blockwise: one for "
            "128 x 128 of a weight, and one for 128 activations"),
      FIELD(fp8, format, any(), "", "hybrid: gradients of activations are e5m2, and all else e4m3"),
      FIELD(fp8, encoding, any(), "",
            "ocp: the common formats; fnuz: those of AMD's gfx942 (MI300), where e4m3 ends at 240"),
      FIELD(fp8, power_of_2_scales, any(), "",
            "round scales down to powers of two, so that they round no number"),
      FIELD(fp8, first_layers_bf16, between(0, kManyLayers), "layers",
            "number at the start of the model that compute in run.precision"),
      FIELD(fp8, last_layers_bf16, between(0, kManyLayers), "layers", "number at its end"),

      FIELD(parallel, tp, between(1, kWide), "ranks", "degree of tensor parallelism"),
      FIELD(parallel, pp, between(1, kWide), "ranks", "degree of pipeline parallelism"),
      FIELD(parallel, cp, between(1, kWide), "ranks", "degree of context parallelism"),
      FIELD(parallel, cp_attention, any(), "",
            "with cp: keys and values come to every rank, ranks exchange positions for heads, or "
            "keys and values pass from rank to rank"),
      FIELD(parallel, ep, between(1, kWide), "ranks",
            "degree of expert parallelism, among the ranks of a pipeline stage"),
      FIELD(parallel, expert_tp, between(1, kWide), "ranks",
            "degree of tensor parallelism of experts: an expert is split over this many of those "
            "ranks"),
      FIELD(parallel, dp_replicate, between(1, kWide), "",
            "hybrid sharding: number of copies of a sharded group of data-parallel ranks"),
      FIELD(parallel, virtual_stages, between(1, kManyLayers), "stages",
            fmt::format("number on each rank, for schedule {} only ({} always have 2)",
                        fmt::join(schedule_names(ChunkRule::several), " and "),
                        fmt::join(schedule_names(ChunkRule::folded), " and "))),
      FIELD(parallel, stage_layers, between(0, kManyLayers), "layers",
            "number in each stage, in order; []: even"),
      FIELD(parallel, schedule, any(), "", "order of the passes in the pipeline"),
      FIELD(parallel, sequence_parallel, any(), "",
            "norms and dropout split the sequence over the tensor-parallel ranks"),
      FIELD(parallel, zero, between(0, 3), "",
            "sharded over data-parallel ranks: 1 optimizer states, 2 also gradients, 3 also "
            "parameters"),
      FIELD(parallel, recompute, any(), "", "activations that the backward pass computes again"),
      FIELD(parallel, recompute_layers, between(0, kManyLayers), "layers",
            "number in each stage that recompute = \"full\" applies to; 0: all"),
      FIELD(parallel, distribute_saved_activations, any(), "",
            "whether each tensor-parallel rank keeps a part of the layers' inputs that full "
            "recomputation saves, and gathers them in the backward pass; with sequence_parallel "
            "nothing changes: ranks have parts anyway"),
      FIELD(parallel, numerics, any(), "", "exact: the same bits on every layout with equal tp"),
      FIELD(parallel, exact_block, between(0, kWide), "tokens",
            "consecutive ones of a sequence whose gradients exact numerics sum at once, so that "
            "bits depend on no micro-batch size; 0: a whole micro-batch"),

      FIELD(offload, optimizer, any(), "",
            "where the states of the optimizer are while a step does not need them; host: the "
            "memory of the machine, where they are anyway with run.device = \"cpu\"; file: a file "
            "on a local disk, with run.device = \"cpu\" alone"),
      FIELD(offload, parameters, any(), "",
            "where a rank's parts of parameters are while no layer needs them, with "
            "parallel.zero = 3; host and file as above"),
      FIELD(offload, activations, any(), "",
            "where the activations that layers save are between their forward and their backward "
            "pass; host and file as above"),
      FIELD(offload, activation_layers, between(0, kManyLayers), "layers",
            "number of each stage's first ones whose activations are offloaded; 0: all"),
      FIELD(offload, path, any(), "", "file: folder of the files; every rank has its own there"),

      FIELD(checkpoint, interval, count(), "iterations",
            "interval between saves; 0: only at the end"),
      FIELD(checkpoint, keep, count(), "checkpoints",
            "number of newest ones that are kept; 0: all"),
      FIELD(checkpoint, async, any(), "", "write while training continues"),
      FIELD(checkpoint, load, any(), "", "folder to start from; \"\": run.dir"),
      FIELD(checkpoint, load_optimizer, any(), "", "load the optimizer states too"),
      FIELD(checkpoint, finetune, any(), "", "load only the weights; counters start at zero"),
      {"checkpoint", "export",
       [](Config& c) -> FieldSlot { return slot_of(&c.checkpoint.export_format); }, any(), "",
       "hf: write checkpoints as Hugging Face folders too, run.dir/exports/step-..., while "
       "training continues"},
      FIELD(checkpoint, export_interval, count(), "iterations",
            "interval between checkpoints that are exported, a multiple of checkpoint.interval; 0: "
            "only the last one"),
      FIELD(checkpoint, fallback, any(), "",
            "check the newest checkpoint before resuming from it; if it is damaged, resume from "
            "the newest valid one"),
      FIELD(checkpoint, local_dir, any(), "",
            "folder on a disk of each node, for checkpoints between those in run.dir; \"\": none"),
      FIELD(checkpoint, local_interval, count(), "iterations",
            "interval between saves to local_dir"),

      FIELD(log, level, any(), "",
            "the least important lines that the terminal shows; log.txt keeps all up to info at "
            "every level"),
      FIELD(log, tensorboard, any(), "", "write TensorBoard event files into run.dir"),
  };
}

#undef FIELD
#undef EXPERT_FIELD

// The names of a choice that it offers.
void allow_choices(Field& field) {
  Config config;
  const FieldSlot slot = field.slot(config);
  const auto* const choice = std::get_if<ChoiceSlot>(&slot);
  if (!choice) return;
  for (const std::string_view name : choice->names)
    if (!name.empty()) field.limits.allowed.emplace_back(name);
}

const std::vector<Field>& table() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> result = build_table();
    for (Field& field : result) allow_choices(field);
    return result;
  }();
  return fields;
}

}  // namespace

std::span<const Field> all_fields() {
  return table();
}

const std::vector<std::string>& section_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Field& field : table()) {
      if (result.empty() || result.back() != field.section) result.push_back(field.section);
    }
    return result;
  }();
  return names;
}

const Field* find_field(const std::string& section, const std::string& name) {
  const auto at = std::find_if(table().begin(), table().end(), [&](const Field& field) {
    return field.section == section && field.name == name;
  });
  return at == table().end() ? nullptr : &*at;
}

const Field* find_field(const std::string& key) {
  const std::size_t dot = key.find('.');
  return dot == std::string::npos ? nullptr : find_field(key.substr(0, dot), key.substr(dot + 1));
}

}  // namespace trireme
