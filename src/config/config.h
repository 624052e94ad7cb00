// Configuration of a run: one plain struct with defaults per section of the TOML file. Field names
// are the keys; config/fields.h documents each with its unit and valid values.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "config/choices.h"

namespace trireme {

struct RunConfig {
  std::string dir = "runs/default";  // folder of checkpoints and metrics
  std::int64_t seed = 1234;
  Precision precision = Precision::bf16;
  StateType gradient_dtype = StateType::fp32;  // of gradient sums; fp32: fp64 with fp64
  DeviceKind device = DeviceKind::cpu;
  std::string memory;      // planned for a process, "64GiB"; "": its share of the machine's
  double peak_tflops = 0;  // per device, for the log; 0: known peak
};

// Mixture of experts ([moe], part of the model): in some layers the MLP is replaced by experts, of
// which a router picks top_k per token.
struct ExpertConfig {
  std::int64_t num_experts = 0;  // 0: all layers are dense; if it varies by layer, the maximum
  std::vector<std::int64_t> experts_by_layer;  // per layer with experts; empty: num_experts
  std::int64_t top_k = 2;
  std::int64_t ffn_hidden_size = 0;  // per expert; 0: model.ffn_hidden_size
  // Layers first_layer, first_layer + layer_interval, ...; overridden by `layers` if not empty.
  std::int64_t first_layer = 0, layer_interval = 1;
  std::vector<std::int64_t> layers;
  RouterScore score = RouterScore::softmax;
  bool router_bias = false;   // learned bias on the router's scores
  bool linear_bias = false;   // biases of the experts' linear layers
  bool scale_inputs = false;  // weights multiply the inputs of experts, not their outputs
  bool normalize_weights = true;
  double scaling_factor = 1;
  std::int64_t num_groups = 1, top_groups = 1;
  bool expert_bias = false;                 // adjusted by expert load, not by gradients
  double bias_update_rate = 1e-3;           // step size of the adjustment
  std::int64_t shared_ffn_hidden_size = 0;  // 0: no shared expert
  bool shared_gate = false;
  bool residual = false;  // mixes experts and shared expert with two learned weights
  BalanceScope aux_loss = BalanceScope::sequence;
  double aux_loss_coeff = 0;
  double z_loss_coeff = 0;
  double capacity_factor = 0;  // 0: dropless
  DropPolicy drop_policy = DropPolicy::weight;

  // Whether a layer (from 0) has experts; experts_in() returns how many.
  bool in_layer(std::int64_t layer) const { return experts_in(layer) > 0; }
  std::int64_t experts_in(std::int64_t layer) const;
  bool has_losses() const { return num_experts > 0 && (aux_loss_coeff > 0 || z_loss_coeff > 0); }
  // Whether the balance loss is computed over the global batch.
  bool keeps_load() const {
    return num_experts > 0 && aux_loss_coeff > 0 && aux_loss == BalanceScope::global;
  }
};

struct ModelConfig {
  std::string preset;          // published model, see config/presets.h; "": none
  std::string family = "gpt";  // gpt | llama | bert
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;  // 0: num_heads
  std::int64_t head_dim = 0;      // 0: hidden_size / num_heads
  // Latent attention (DeepSeek's MLA): keys and values are projected from a latent of kv_lora_rank,
  // queries from one of q_lora_rank (0: from the hidden state). kv_lora_rank 0: standard attention.
  std::int64_t kv_lora_rank = 0, q_lora_rank = 0;
  // Head widths: without RoPE, with RoPE, and of the value; head_dim is the sum of the first two.
  std::int64_t qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  std::int64_t ffn_hidden_size = 0;  // 0: 4 h, or int(8 h / 3 / 64) * 64 for swiglu
  std::int64_t seq_length = 0;
  std::int64_t max_positions = 0;     // 0: seq_length
  std::int64_t vocab_size = 0;        // 0: from the tokenizer
  std::int64_t vocab_multiple = 128;  // vocabulary is padded to a multiple of this x tp
  PositionEncoding position = PositionEncoding::by_family;
  double rope_base = 10000;
  double rope_base_local =
      0;  // for layers with a sliding window, without RoPE scaling; 0: rope_base
  double rope_percent = 1;
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_scaling_factor = 1;
  double rope_low_freq_factor = 1, rope_high_freq_factor = 4;  // llama3
  double rope_beta_fast = 32, rope_beta_slow = 1;              // yarn: in rotations
  double rope_attention_factor = 0;          // yarn, longrope: query/key factor; 0: by the factor
  bool rope_truncate = true;                 // yarn: round bounds to whole pairs
  std::int64_t rope_original_length = 8192;  // llama3, yarn, longrope, rope_query_beta
  // longrope: divisors of the frequencies, in sequences up to the original length and beyond it.
  std::vector<double> rope_short_factors, rope_long_factors;
  double rope_query_beta =
      0;  // queries are scaled by 1 + beta ln(1 + position / original length); 0: off
  std::vector<std::int64_t> no_rope_layers;  // layers without RoPE
  // In these layers: 1 + beta ln(1 + (position + 1) / length) scales queries; 0: off.
  double no_rope_query_beta = 0;
  std::int64_t no_rope_query_length = 8192;
  NormType norm = NormType::by_family;
  double norm_eps = 1e-5;
  double latent_norm_eps = 0;  // of the norms inside latent attention; 0: norm_eps
  MlpActivation activation = MlpActivation::by_family;
  double activation_clamp = 0;  // upper bound of gate, and bound of |up projection|; 0: no clamping
  double gate_alpha = 1;        // swiglu: gate x sigmoid(alpha x gate)
  double gate_offset = 0;       // added to the up projection
  bool bias = true;             // biases of linear layers; turned off by default for "llama"
  bool qkv_bias = true;         // bias of the QKV projection
  bool qk_norm = false;         // RMSNorm on queries and keys
  NormSpan qk_norm_over = NormSpan::head;  // what each QK norm spans
  bool qk_l2_norm = false;                 // QK norms without weights, in layers with RoPE only
  bool zero_centered_norms = false;     // norms multiply by 1 + weight, and weights start at zero
  bool zero_centered_qk_norms = false;  // same for the QK norms
  bool embedding_norm = false;          // norm after the embedding
  bool scale_embedding = false;         // multiplies embeddings by sqrt(hidden_size)
  // Factors on embeddings, on the output of each residual branch, and on logits (Granite).
  double embedding_multiplier = 1, residual_multiplier = 1, logit_multiplier = 1;
  bool tie_embeddings = true;
  NormPlacement norm_placement = NormPlacement::pre;
  double attention_scale = 0;               // factor on scores; 0: 1 / sqrt(head_dim)
  double attention_soft_cap = 0;            // scores become cap x tanh(score / cap); 0: none
  double logit_soft_cap = 0;                // same for the final logits
  std::int64_t attention_window = 0;        // sliding window, including itself; 0: all
  std::vector<std::int64_t> window_layers;  // layers with the sliding window; empty: all
  bool window_chunks = false;               // windows are chunks, which begin at their multiples
  bool attention_sinks = false;             // learned sink logit per head, without a value
  bool attention_gate = false;              // heads are multiplied by sigmoids of their input
  // Layers with linear attention instead of attention, its kind and its sizes.
  std::vector<std::int64_t> linear_layers;
  LinearKind linear_kind = LinearKind::gated_delta_net;
  std::int64_t linear_key_heads = 0, linear_value_heads = 0;
  std::int64_t linear_key_head_dim = 0, linear_value_head_dim = 0;
  std::int64_t linear_conv_width = 4;  // positions that its convolution sees
  bool linear_conv_bias = false;       // of its convolution
  // Layers that are an MLP (or experts) alone; if there are any, the others are attention alone.
  std::vector<std::int64_t> mlp_layers;
  std::int64_t mtp_layers = 0;  // multi-token prediction: further tokens that are predicted
  double mtp_loss_scale = 0.1;  // weight of their mean loss
  bool order_head = true;       // bert: sentence-order prediction head and pooler
  bool token_types = true;      // bert: segment embeddings; default: as order_head
  double hidden_dropout = 0;
  double attention_dropout = 0;
  double init_std = 0.02;
  // Maximal-update parametrization: width of the model that hyperparameters were tuned at (0: off),
  // and the width of its heads (0: scores are multiplied by 1 / head_dim).
  std::int64_t mup_base_hidden_size = 0, mup_base_head_dim = 0;
  ExpertConfig moe;
  std::set<std::string> given;  // keys set explicitly, which resolve() leaves unchanged

  bool is_latent() const { return kv_lora_rank > 0; }
  // Width of a head's value.
  std::int64_t value_dim() const { return is_latent() ? v_head_dim : head_dim; }
  // Whether the attention of a layer (from 0) uses the sliding window.
  bool window_in_layer(std::int64_t layer) const;
  // Whether a layer applies RoPE to its queries and keys.
  bool rope_in_layer(std::int64_t layer) const;
  // Whether a layer has linear attention.
  bool linear_in_layer(std::int64_t layer) const;
  // Whether a layer has attention of any kind, and whether it has an MLP or experts.
  bool attention_in_layer(std::int64_t layer) const;
  bool mlp_in_layer(std::int64_t layer) const;
};

// Whether the MLP is gated.
inline bool has_gate(const ModelConfig& model) {
  return model.activation == MlpActivation::swiglu || model.activation == MlpActivation::geglu;
}

struct DataConfig {
  std::vector<std::string> path;  // prefixes, or weight prefix weight prefix ...
  std::vector<std::string> train_path, valid_path, test_path;  // instead of path + split
  std::string split = "969,30,1";
  std::vector<std::string> sources,
      valid_sources;                                // text files, or weight files weight files ...
  std::vector<std::string> source_keys = {"text"};  // text columns: one, or one per source
  DocumentUnit source_documents = DocumentUnit::file;  // for plain text
  std::int64_t shuffle_buffer = 10000;                 // documents per source; 0: no shuffling
  bool skip_bad_rows = false;                          // for sources
  std::int64_t tokenizer_threads = 1;                  // per source
  std::string cache_dir;                               // "": next to the data
  std::string tokenizer;                               // kind; see docs/tokenizers.md
  std::string vocab_file, merge_file, tokenizer_model;
  std::string tokenizer_pattern;  // kind of a tiktoken file; "": detected
  std::int64_t prefetch = 4;      // micro-batches to prefetch
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  bool eod_mask_loss = false;
  double mask_prob = 0.15;      // bert: fraction of tokens to predict
  double short_seq_prob = 0.1;  // bert: fraction of deliberately shorter samples
  double fim_rate = 0;          // gpt: fraction of documents transformed to fill-in-the-middle
  double fim_spm_rate = 0.5;    // fraction of those in suffix-prefix-middle order
  std::string fim_prefix_token = "<|fim_prefix|>";
  std::string fim_middle_token = "<|fim_middle|>";
  std::string fim_suffix_token = "<|fim_suffix|>";
};

struct TrainConfig {
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 0;           // 0: micro_batch_size x dp
  std::vector<std::int64_t> rampup_batch_size;  // start, increment, samples
  std::string batch_size_schedule;              // "0:16 64K:32": batch_sizes.h
  std::int64_t iters = 0;                       // exactly one of iters and samples is set
  std::int64_t samples = 0;
  std::int64_t tokens = 0;            // ends the run early; 0: off
  std::int64_t eval_interval = 1000;  // 0: never
  std::int64_t eval_iters = 100;
  std::vector<std::string> eval_tasks;   // files of evaluation tasks
  std::int64_t eval_tasks_interval = 0;  // 0: eval_interval
  std::int64_t log_interval = 100;
  std::int64_t exit_interval = 0;         // exits at the first multiple; 0: off
  double exit_duration_minutes = 0;       // 0: off
  double timeout_s = 600;                 // watchdog of collectives
  std::vector<std::int64_t> trace_steps;  // first, last: steps recorded as a Chrome trace
  bool check_nan = true;
  std::int64_t guard_interval = 0;               // of the silent data corruption check; 0: off
  std::int64_t hash_interval = 0;                // of parameter hashes in the metrics; 0: off
  SpikePolicy spike_policy = SpikePolicy::none;  // for loss spikes
  std::int64_t spike_window = 128;               // number of recent losses to compare with
  double spike_sigma = 6;                        // standard deviations above their median
  std::int64_t spike_back_steps = 10;            // back: minimum steps to roll back
};

// Curriculum learning: sequence length grows early in training (as in DeepSpeed).
struct CurriculumConfig {
  CurriculumSchedule schedule = CurriculumSchedule::none;
  std::int64_t min_length = 0;   // initial length; the final one is model.seq_length
  std::int64_t iters = 0;        // iterations until the final length
  std::int64_t length_step = 8;  // lengths are multiples of this
  std::int64_t root_degree = 2;  // fixed_root: 2 means square root
};

struct OptimizerConfig {
  OptimizerKind name = OptimizerKind::adamw;
  double lr = 0;
  double min_lr = 0;
  DecayStyle decay_style = DecayStyle::linear;
  std::int64_t decay_iters = 0;  // 0: train length
  std::int64_t decay_samples = 0;
  std::int64_t decay_tokens = 0;  // decay length in tokens; excludes the two above
  std::int64_t warmup_iters = 0;
  std::int64_t warmup_samples = 0;
  std::int64_t warmup_tokens = 0;  // requires decay_tokens
  double warmup_fraction = 0;      // of the decay length; excludes the three above
  double warmup_init_lr = 0;
  std::int64_t wsd_decay_iters = 0;  // length of the final annealing phase
  std::int64_t wsd_decay_samples = 0;
  AnnealStyle wsd_decay_style = AnnealStyle::exponential;
  double weight_decay = 0.01;
  bool decay_vectors = false;    // weight decay on biases and norms
  bool decay_qk_norms = false;   // weight decay on the norms of queries and keys
  double qk_clip_threshold = 0;  // of attention logits; 0: off
  double qk_clip_alpha = 0.5;    // share of the scaling that queries take
  double clip_grad = 1.0;        // 0: off
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0.9;  // sgd
  double lion_beta1 = 0.9;
  double lion_beta2 = 0.99;
  double muon_lr = 0;  // peak rate of matrices; 0: lr
  double muon_momentum = 0.95;
  bool muon_nesterov = true;
  std::int64_t muon_steps = 5;  // Newton-Schulz iterations
  MuonCoefficients muon_coefficients = MuonCoefficients::simple;
  MuonScale muon_scale = MuonScale::match_rms;
  double muon_scale_factor = 1;
  StateType moment_dtype = StateType::fp32;  // fp32 means fp64 with fp64
  double loss_scale = 0;                     // fp16: static loss scale; 0: dynamic
  double initial_loss_scale = 4294967296.0;
  double min_loss_scale = 1;
  std::int64_t loss_scale_window = 1000;
  std::int64_t hysteresis = 2;
};

// FP8 GEMMs for the linear layers of transformer blocks.
struct Fp8Config {
  Fp8Recipe recipe = Fp8Recipe::none;
  Fp8Mix format = Fp8Mix::e4m3;
  Fp8Encoding encoding = Fp8Encoding::ocp;
  bool power_of_2_scales = true;
  std::int64_t first_layers_bf16 = 0, last_layers_bf16 = 0;  // layers kept in run.precision
};

struct ParallelConfig {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t cp = 1;
  ContextAttention cp_attention = ContextAttention::all_gather;
  std::int64_t ep = 1;
  std::int64_t expert_tp = 1;
  std::int64_t dp_replicate = 1;  // HSDP: replicas of each sharding group
  std::int64_t virtual_stages = 1;
  std::vector<std::int64_t> stage_layers;  // layers per stage; empty: even split
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  bool sequence_parallel = false;
  std::int64_t zero = 0;  // 0 | 1 | 2 | 3
  Recompute recompute = Recompute::none;
  std::int64_t recompute_layers = 0;  // full: layers per stage to recompute; 0: all
  bool distribute_saved_activations = false;
  Numerics numerics = Numerics::fast;
  std::int64_t exact_block = 0;   // exact: tokens summed per block; 0: a micro-batch
  std::int64_t exact_leaves = 0;  // exact: leaves of sums that tp may split; 0: one per rank

  // Portable numerics are exact ones that do not depend on the processor either.
  bool exact() const { return numerics != Numerics::fast; }
};

// Offloading of data from device memory.
struct OffloadConfig {
  OffloadPlace optimizer = OffloadPlace::none;    // optimizer states
  OffloadPlace parameters = OffloadPlace::none;   // parameter shards
  OffloadPlace activations = OffloadPlace::none;  // saved activations
  std::int64_t activation_layers = 0;             // number of first layers of a stage; 0: all
  std::string path;                               // file: folder on a local disk
};

struct CheckpointConfig {
  std::int64_t interval = 0;  // 0: only at the end of the run
  std::int64_t keep = 0;      // number of newest checkpoints to keep; 0: all
  bool async = false;
  std::string load;  // folder to start from; "": run.dir
  bool load_optimizer = true;
  bool finetune = false;                            // loads weights only; counters start at zero
  ExportFormat export_format = ExportFormat::none;  // of additional exports of the weights
  std::int64_t export_interval = 0;                 // 0: only for the last checkpoint
  bool fallback = false;            // if the newest is damaged, resumes from the newest valid one
  std::string local_dir;            // node-local disk for additional checkpoints; "": none
  std::int64_t local_interval = 0;  // between node-local checkpoints
  std::int64_t local_copies = 0;    // of each node-local checkpoint, on other nodes
};

struct LogConfig {
  LogLevel level = LogLevel::info;  // for terminal output
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

// Parses a TOML file, applies overrides of the form "section.key=value" in order, and resolves the
// model. An override's value is TOML (`train.iters=100`, `data.path=["a", "b"]`); a bare word is a
// string. Unknown keys, wrong types and out-of-set values throw bad_input with the location and the
// nearest key. Contradictions are left to validate().
Config load_config(const std::string& path, const std::vector<std::string>& overrides);
// Same, from text; `name` stands for the file in messages.
Config parse_config(const std::string& text, const std::string& name,
                    const std::vector<std::string>& overrides = {});

// Changed values among `keys`, formatted as "model.rope_base: 10000.0, was 500000.0".
std::vector<std::string> changes(const Config& before, const Config& now,
                                 const std::vector<std::string>& keys);

// Fills in derived fields: the family's defaults (positions, norm, activation, biases, tied
// embeddings, epsilon) and sizes given as 0. Fields in `given` and fields that differ from the
// defaults above are kept. Idempotent. `vocab_size` stays 0 until the tokenizer or the data
// determines it.
void resolve(ModelConfig& model);

// Refuses settings that are invalid on any number of ranks; messages name keys and valid values.
// Expects a resolved model; `vocab_size` may still be 0.
void validate(const Config& config);
void validate(const ModelConfig& model);  // only the model's rules

// Refuses models for which run.device has no kernels.
void refuse_for_device(const Config& config);

// Refuses a layout that does not fit `world_size` ranks: degrees, stages, heads and batch sizes.
// Messages propose values that fit. Does not check memory.
void validate_layout(const Config& config, std::int64_t world_size);

// Settings of a valid layout that have no effect on this many ranks, one sentence each.
std::vector<std::string> layout_notes(const Config& config, std::int64_t world_size);

// Parses "64GiB", "512 MiB", "80GB", "1.5TiB" or a plain number of bytes. Refuses other text and
// non-positive sizes; `name` begins the message.
std::int64_t parse_byte_size(const std::string& text, const std::string& name);

// Pipeline stages (model chunks) per rank: 2 for V-shaped schedules, else virtual_stages; 1 without
// pipeline parallelism.
std::int64_t stages_per_rank(const ParallelConfig& parallel);

// Data-parallel size: world_size / (tp * pp * cp). Expects a valid layout.
std::int64_t data_parallel_size(const ParallelConfig& parallel, std::int64_t world_size);

// Final global batch size: train.global_batch_size, the last size of train.batch_size_schedule, or
// micro_batch_size x dp if neither is given.
std::int64_t global_batch_size(const Config& config, std::int64_t world_size);

// "bf16", with further settings that affect numerical precision.
std::string precision_text(const Config& config);

// The whole resolved configuration as TOML, which load_config parses back to the same values.
std::string to_toml(const Config& config);

}  // namespace trireme
