// The configuration of a run: one plain struct per section of the TOML file, with defaults.
// Field names are the keys; config/fields.h describes each one, with its unit and valid values.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "config/choices.h"

namespace trireme {

struct RunConfig {
  std::string dir = "runs/default";  // where checkpoints and metrics go
  std::int64_t seed = 1234;
  Precision precision = Precision::bf16;
  StateType gradient_dtype = StateType::fp32;  // of gradient sums; fp32 is fp64 with fp64
  DeviceKind device = DeviceKind::cpu;
  std::string memory;      // of a process, as "64GiB"; "": what the machine has
  double peak_tflops = 0;  // of a device, for the log; 0: what is known of it
};

// Mixture of experts: layers whose MLP is replaced by experts, of which a router picks a few for
// each token. The section [moe]; it belongs to the model.
struct ExpertConfig {
  std::int64_t num_experts = 0;  // 0: every layer is dense; of several numbers the largest
  std::vector<std::int64_t> experts_by_layer;  // in each layer with experts; empty: num_experts
  std::int64_t top_k = 2;
  std::int64_t ffn_hidden_size = 0;  // of one expert; 0: model.ffn_hidden_size
  // Layers first_layer, first_layer + layer_interval, ...; `layers`: these instead.
  std::int64_t first_layer = 0, layer_interval = 1;
  std::vector<std::int64_t> layers;
  RouterScore score = RouterScore::softmax;
  bool router_bias = false;  // a learned bias of the router's scores
  bool linear_bias = false;  // biases of the experts' linear layers
  bool normalize_weights = true;
  double scaling_factor = 1;
  std::int64_t num_groups = 1, top_groups = 1;
  bool expert_bias = false;                 // moved by the load, without a loss
  double bias_update_rate = 1e-3;           // a step of it
  std::int64_t shared_ffn_hidden_size = 0;  // 0: no shared expert
  bool shared_gate = false;
  bool residual = false;  // mixes experts and shared expert by two learned shares
  BalanceScope aux_loss = BalanceScope::sequence;
  double aux_loss_coeff = 0;
  double z_loss_coeff = 0;
  double capacity_factor = 0;  // 0: dropless
  DropPolicy drop_policy = DropPolicy::weight;

  // Whether a layer, counted from 0, has experts, and how many.
  bool in_layer(std::int64_t layer) const { return experts_in(layer) > 0; }
  std::int64_t experts_in(std::int64_t layer) const;
  bool has_losses() const { return num_experts > 0 && (aux_loss_coeff > 0 || z_loss_coeff > 0); }
  // Whether the balance loss is over the whole batch.
  bool keeps_load() const {
    return num_experts > 0 && aux_loss_coeff > 0 && aux_loss == BalanceScope::global;
  }
};

struct ModelConfig {
  std::string preset;          // a published model, see config/presets.h; "": none
  std::string family = "gpt";  // gpt | llama | bert
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;  // 0: num_heads
  std::int64_t head_dim = 0;      // 0: hidden_size / num_heads
  // Latent attention (DeepSeek): keys and values come from kv_lora_rank numbers of a position, and
  // queries from q_lora_rank (0: from the position itself). 0: ordinary attention.
  std::int64_t kv_lora_rank = 0, q_lora_rank = 0;
  // A head's width without positions, with them, and that of its value; head_dim is the first two.
  std::int64_t qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  std::int64_t ffn_hidden_size = 0;  // 0: 4 h, or int(8 h / 3 / 64) * 64 for swiglu
  std::int64_t seq_length = 0;
  std::int64_t max_positions = 0;     // 0: seq_length
  std::int64_t vocab_size = 0;        // 0: from the tokenizer
  std::int64_t vocab_multiple = 128;  // computed vocabulary is padded to a multiple of this x tp
  PositionEncoding position = PositionEncoding::by_family;
  double rope_base = 10000;
  double rope_base_local =
      0;  // of layers with a window, whose positions are not scaled; 0: as others
  double rope_percent = 1;
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_scaling_factor = 1;
  double rope_low_freq_factor = 1, rope_high_freq_factor = 4;  // llama3
  double rope_beta_fast = 32, rope_beta_slow = 1;              // yarn: turns
  double rope_attention_factor = 0;          // yarn: of queries and keys; 0: 0.1 ln(factor) + 1
  bool rope_truncate = true;                 // yarn: whole pairs bound those divided in part
  std::int64_t rope_original_length = 8192;  // llama3, yarn, rope_query_beta
  double rope_query_beta =
      0;  // queries grow by 1 + beta ln(1 + position / original length); 0: not
  std::vector<std::int64_t> no_rope_layers;  // without positions
  NormType norm = NormType::by_family;
  double norm_eps = 1e-5;
  double latent_norm_eps = 0;  // of the norms within latent attention; 0: norm_eps
  MlpActivation activation = MlpActivation::by_family;
  double activation_clamp = 0;  // gate at most this, and what it multiplies within +-this; 0: none
  double gate_alpha = 1;        // of swiglu: gate x sigmoid(alpha x gate)
  double gate_offset = 0;       // added to what the gate multiplies
  bool bias = true;      // biases of linear layers; "llama" turns it off by default
  bool qkv_bias = true;  // bias of the query, key, value projection
  bool qk_norm = false;  // RMSNorm of queries and keys
  NormSpan qk_norm_over = NormSpan::head;  // what each of these norms spans
  bool zero_centered_norms = false;     // norms multiply by 1 + weight, and weights start at zero
  bool zero_centered_qk_norms = false;  // the same of queries and keys
  bool embedding_norm = false;          // a norm after the embedding
  bool scale_embedding = false;         // times sqrt(hidden_size)
  // What the embedding, what each residual branch adds, and the logits are multiplied by (Granite).
  double embedding_multiplier = 1, residual_multiplier = 1, logit_multiplier = 1;
  bool tie_embeddings = true;
  NormPlacement norm_placement = NormPlacement::pre;
  double attention_scale = 0;               // of scores; 0: 1 / sqrt(head_dim)
  double attention_soft_cap = 0;            // scores become cap x tanh(score / cap); 0: none
  double logit_soft_cap = 0;                // the same of the final logits
  std::int64_t attention_window = 0;        // positions that one sees, itself included; 0: all
  std::vector<std::int64_t> window_layers;  // with a window; empty: all
  bool attention_sinks = false;             // a learned score of each head, without a value
  bool order_head = true;                   // bert: sentence-order head and pooler
  bool token_types = true;                  // bert: embedding of two segments; by order_head
  double hidden_dropout = 0;
  double attention_dropout = 0;
  double init_std = 0.02;
  ExpertConfig moe;
  std::set<std::string> given;  // keys that were set: resolve() leaves them as they are

  bool is_latent() const { return kv_lora_rank > 0; }
  // Width of a value of a head.
  std::int64_t value_dim() const { return is_latent() ? v_head_dim : head_dim; }
  // Whether attention of a layer, counted from 0, has the window.
  bool window_in_layer(std::int64_t layer) const;
  // Whether positions turn its queries and keys.
  bool rope_in_layer(std::int64_t layer) const;
};

// Whether its MLP has a gate.
inline bool has_gate(const ModelConfig& model) {
  return model.activation == MlpActivation::swiglu || model.activation == MlpActivation::geglu;
}

struct DataConfig {
  std::vector<std::string> path;  // prefixes, or weight prefix weight prefix ...
  std::vector<std::string> train_path, valid_path, test_path;  // instead of path + split
  std::string split = "969,30,1";
  std::vector<std::string> sources,
      valid_sources;  // files of text, or weight files weight files ...
  std::vector<std::string> source_keys = {"text"};  // columns: one for all sources or one for each
  DocumentUnit source_documents = DocumentUnit::file;  // of plain text
  std::int64_t shuffle_buffer = 10000;                 // documents of a source; 0: not shuffled
  bool skip_bad_rows = false;                          // of sources
  std::int64_t tokenizer_threads = 1;                  // of each source
  std::string cache_dir;                               // "": next to the data
  std::string tokenizer;                               // kind; fields.cpp lists them
  std::string vocab_file, merge_file, tokenizer_model;
  std::string tokenizer_pattern;  // kind of a tiktoken file; "": the file tells
  std::int64_t prefetch = 4;      // micro-batches kept ready
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  bool eod_mask_loss = false;
  double mask_prob = 0.15;      // bert: share of the tokens to predict
  double short_seq_prob = 0.1;  // bert: share of the samples that are shorter on purpose
  double fim_rate = 0;  // gpt: share of the documents that are rewritten to fill in the middle
  double fim_spm_rate = 0.5;  // of these, share with the suffix before the prefix
  std::string fim_prefix_token = "<|fim_prefix|>";
  std::string fim_middle_token = "<|fim_middle|>";
  std::string fim_suffix_token = "<|fim_suffix|>";
};

struct TrainConfig {
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 0;           // 0: micro_batch_size x dp
  std::vector<std::int64_t> rampup_batch_size;  // start, increment, samples
  std::string batch_size_schedule;              // "0:16 64K:32": batch_sizes.h
  std::int64_t iters = 0;                       // one of iters and samples
  std::int64_t samples = 0;
  std::int64_t tokens = 0;            // ends the run earlier; 0: off
  std::int64_t eval_interval = 1000;  // 0: never
  std::int64_t eval_iters = 100;
  std::int64_t log_interval = 100;
  std::int64_t exit_interval = 0;         // stop at the first multiple; 0: off
  double exit_duration_minutes = 0;       // 0: off
  double timeout_s = 600;                 // watchdog of collectives
  std::vector<std::int64_t> trace_steps;  // first, last: writes a Chrome trace
  bool check_nan = true;
  std::int64_t guard_interval = 0;  // of the check for silent corruption; 0: off
  std::int64_t hash_interval = 0;   // of a hash of all parameters in the metrics; 0: off
  SpikePolicy spike_policy = SpikePolicy::none;  // of the loss
  std::int64_t spike_window = 128;               // losses that a step's is compared with
  double spike_sigma = 6;                        // standard deviations above their median
  std::int64_t spike_back_steps = 10;            // back: at least this many, to a checkpoint
};

// Sequences that grow while training begins (DeepSpeed's curriculum learning).
struct CurriculumConfig {
  CurriculumSchedule schedule = CurriculumSchedule::none;
  std::int64_t min_length = 0;   // at the beginning; the end is model.seq_length
  std::int64_t iters = 0;        // until the end is reached
  std::int64_t length_step = 8;  // lengths are multiples of it
  std::int64_t root_degree = 2;  // fixed_root: 2 is a square root
};

struct OptimizerConfig {
  OptimizerKind name = OptimizerKind::adamw;
  double lr = 0;
  double min_lr = 0;
  DecayStyle decay_style = DecayStyle::linear;
  std::int64_t decay_iters = 0;  // 0: train length
  std::int64_t decay_samples = 0;
  std::int64_t decay_tokens = 0;  // the decay counts tokens; excludes the two above
  std::int64_t warmup_iters = 0;
  std::int64_t warmup_samples = 0;
  std::int64_t warmup_tokens = 0;  // with decay_tokens
  double warmup_fraction = 0;      // of the decay length; excludes the three above
  double warmup_init_lr = 0;
  std::int64_t wsd_decay_iters = 0;  // length of the anneal at the end of the decay
  std::int64_t wsd_decay_samples = 0;
  AnnealStyle wsd_decay_style = AnnealStyle::exponential;
  double weight_decay = 0.01;
  bool decay_vectors = false;  // biases and norms decay as well
  double clip_grad = 1.0;      // 0: off
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0.9;  // sgd
  double lion_beta1 = 0.9;
  double lion_beta2 = 0.99;
  double muon_lr = 0;  // highest, of whole matrices; 0: lr
  double muon_momentum = 0.95;
  bool muon_nesterov = true;
  std::int64_t muon_steps = 5;  // of Newton-Schulz
  MuonCoefficients muon_coefficients = MuonCoefficients::simple;
  MuonScale muon_scale = MuonScale::match_rms;
  double muon_scale_factor = 1;
  StateType moment_dtype = StateType::fp32;  // fp32 is fp64 with fp64
  double loss_scale = 0;                     // fp16: fixed scale; 0: dynamic
  double initial_loss_scale = 4294967296.0;
  double min_loss_scale = 1;
  std::int64_t loss_scale_window = 1000;
  std::int64_t hysteresis = 2;
};

// Products of the linear layers of blocks in 8-bit floating point.
struct Fp8Config {
  Fp8Recipe recipe = Fp8Recipe::none;
  Fp8Mix format = Fp8Mix::e4m3;
  Fp8Encoding encoding = Fp8Encoding::ocp;
  bool power_of_2_scales = true;
  std::int64_t first_layers_bf16 = 0, last_layers_bf16 = 0;  // in run.precision
};

struct ParallelConfig {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t cp = 1;
  ContextAttention cp_attention = ContextAttention::all_gather;
  std::int64_t ep = 1;
  std::int64_t expert_tp = 1;
  std::int64_t dp_replicate = 1;  // hybrid sharding: copies of a sharded group
  std::int64_t virtual_stages = 1;
  std::vector<std::int64_t> stage_layers;  // layers of each stage; empty: even
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  bool sequence_parallel = false;
  std::int64_t zero = 0;  // 0 | 1 | 2 | 3
  Recompute recompute = Recompute::none;
  std::int64_t recompute_layers = 0;  // full: layers of a stage to recompute; 0: all
  bool distribute_saved_activations = false;
  Numerics numerics = Numerics::fast;
  std::int64_t exact_block = 0;   // exact: tokens that are summed at once; 0: a micro-batch
  std::int64_t exact_leaves = 0;  // exact: parts of a sum that tp may split; 0: one for each rank
};

// Data kept outside of the memory of the device.
struct OffloadConfig {
  OffloadPlace optimizer = OffloadPlace::none;    // states
  OffloadPlace parameters = OffloadPlace::none;   // parts of parameters
  OffloadPlace activations = OffloadPlace::none;  // what layers save
  std::int64_t activation_layers = 0;             // this many of a stage's first layers; 0: all
  std::string path;                               // file: folder on a local disk
};

struct CheckpointConfig {
  std::int64_t interval = 0;  // 0: only at the end
  std::int64_t keep = 0;      // newest kept; 0: all
  bool async = false;
  std::string load;  // folder to start from; "": run.dir
  bool load_optimizer = true;
  bool finetune = false;                            // weights only, counters from zero
  ExportFormat export_format = ExportFormat::none;  // of further copies of the weights
  std::int64_t export_interval = 0;                 // 0: only the last checkpoint
  bool fallback = false;  // on from the newest sound checkpoint where the newest one is damaged
  std::string local_dir;  // on a disk of each node, for further checkpoints; "": none
  std::int64_t local_interval = 0;  // between these
};

struct LogConfig {
  LogLevel level = LogLevel::info;  // of what the terminal shows
  bool tensorboard = false;
};

struct Config {
  RunConfig run;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  CurriculumConfig curriculum;
  OptimizerConfig optimizer;
  Fp8Config fp8;
  ParallelConfig parallel;
  OffloadConfig offload;
  CheckpointConfig checkpoint;
  LogConfig log;
};

// Reads a TOML file, applies overrides of the form "section.key=value" in order, and resolves the
// model. The value of an override is TOML (`train.iters=100`, `data.path=["a", "b"]`); a bare word
// is a string. Unknown keys, wrong types and values outside their set are errors (fail_input) that
// name the place and the nearest key. What contradicts itself is left to validate().
Config load_config(const std::string& path, const std::vector<std::string>& overrides);
// The same from text; `name` is the file's in messages.
Config parse_config(const std::string& text, const std::string& name,
                    const std::vector<std::string>& overrides = {});

// Which of these keys have other values now, as "model.rope_base: 10000.0, was 500000.0".
std::vector<std::string> changes(const Config& before, const Config& now,
                                 const std::vector<std::string>& keys);

// Fills what follows from other fields: what the family implies (positions, norm, activation,
// biases, tied embeddings, epsilon) and sizes given as 0. Fields in `given`, and fields that differ
// from the defaults above, stay as they are. Idempotent. `vocab_size` stays 0 until the tokenizer
// or the data says it.
void resolve(ModelConfig& model);

// Refuses what cannot work on any number of ranks, naming keys, values and valid values. Expects a
// resolved model; `vocab_size` may still be 0.
void validate(const Config& config);
void validate(const ModelConfig& model);  // only the rules of the model

// Refuses models that run.device has no kernels for.
void refuse_for_device(const Config& config);

// Refuses a layout that does not fit `world_size` ranks: degrees, stages, heads and batch sizes.
// Messages propose values that fit. Implies nothing about memory.
void validate_layout(const Config& config, std::int64_t world_size);

// Settings of a valid layout that do nothing on this many ranks, one sentence each.
std::vector<std::string> layout_notes(const Config& config, std::int64_t world_size);

// "64GiB", "512 MiB", "80GB", "1.5TiB" or a plain number of bytes. Refuses anything else, and what
// is not positive; `name` begins the message.
std::int64_t parse_byte_size(const std::string& text, const std::string& name);

// Pipeline stages on each rank: 2 for the V-shaped schedules, else virtual_stages; 1 without a
// pipeline.
std::int64_t stages_per_rank(const ParallelConfig& parallel);

// Ranks that hold different samples: world_size / (tp * pp * cp). Expects a valid layout.
std::int64_t data_parallel_size(const ParallelConfig& parallel, std::int64_t world_size);

// Samples of a step when the batch has grown to its last size: train.global_batch_size, the last
// size of train.batch_size_schedule, or micro_batch_size x dp where neither is given.
std::int64_t global_batch_size(const Config& config, std::int64_t world_size);

// "bf16", and what else says how the model computes.
std::string precision_text(const Config& config);

// The whole configuration, resolved, as TOML that load_config reads back to the same values.
std::string to_toml(const Config& config);

}  // namespace trireme
