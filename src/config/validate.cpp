// Rules that hold on any number of ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

#include "base/divide.h"
#include "base/error.h"
#include "config/config.h"
#include "config/divisors.h"
#include "config/experts.h"
#include "config/families.h"
#include "config/fp8.h"

namespace trireme {
namespace {

constexpr double kMostParameters = 1e14, kMostActivations = 1e14;

void check_sizes(const ModelConfig& model) {
  std::vector<std::string> missing;
  if (model.num_layers == 0) missing.push_back("num_layers");
  if (model.hidden_size == 0) missing.push_back("hidden_size");
  if (model.num_heads == 0) missing.push_back("num_heads");
  if (model.seq_length == 0) missing.push_back("seq_length");
  if (!missing.empty()) {
    fail_input("[model] lacks {}: set {} to a positive number", fmt::join(missing, ", "),
               missing.size() == 1 ? "it" : "them");
  }
  if (model.seq_length > model.max_positions) {
    fail_input(
        "model.seq_length = {} is longer than model.max_positions = {}: raise max_positions or "
        "shorten seq_length",
        model.seq_length, model.max_positions);
  }
}

// Numbers that no machine holds are refused before anything grows with them.
void check_absurd(const ModelConfig& model) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const double hidden = number(model.hidden_size), heads = number(model.num_heads);
  const double parameters =
      number(model.num_layers) * (4 * hidden * heads * number(model.head_dim) +
                                  3 * hidden * number(model.ffn_hidden_size)) +
      hidden * (number(model.vocab_size) + number(model.max_positions));
  if (parameters > kMostParameters) {
    fail_input(
        "[model] has about {:.1g} parameters, and at most {:.0g} are supported: check num_layers, "
        "hidden_size, num_heads, head_dim, ffn_hidden_size and vocab_size",
        parameters, kMostParameters);
  }
}

void check_activations(const Config& config) {
  const double kept = static_cast<double>(config.train.micro_batch_size) *
                      static_cast<double>(config.model.seq_length) *
                      static_cast<double>(config.model.hidden_size) *
                      static_cast<double>(config.model.num_layers);
  if (kept <= kMostActivations) return;
  fail_input(
      "train.micro_batch_size x model.seq_length x hidden_size x num_layers = {} x {} x {} x {} "
      "activations are too many, at most {:.0g} are supported: use a smaller micro-batch",
      config.train.micro_batch_size, config.model.seq_length, config.model.hidden_size,
      config.model.num_layers, kMostActivations);
}

void check_heads(const ModelConfig& model) {
  const bool derived =
      !model.given.contains("head_dim") && model.head_dim == model.hidden_size / model.num_heads;
  if (derived && model.hidden_size % model.num_heads != 0) {
    fail_input(
        "model.hidden_size = {} is not divisible by model.num_heads = {}: num_heads can be {}, or "
        "set model.head_dim",
        model.hidden_size, model.num_heads, divisors_near(model.hidden_size, model.num_heads));
  }
  constexpr std::int64_t widest_head = 256;  // of the attention kernels
  if (model.head_dim > widest_head) {
    fail_input(
        "model.head_dim = {} is above {}, the widest head that attention can compute: use more "
        "heads, or narrower ones{}",
        model.head_dim, widest_head,
        derived ? fmt::format(" (head_dim is hidden_size / num_heads = {} / {})", model.hidden_size,
                              model.num_heads)
                : "");
  }
  if (model.num_kv_heads > model.num_heads || model.num_heads % model.num_kv_heads != 0) {
    fail_input(
        "model.num_heads = {} is not divisible by model.num_kv_heads = {}: num_kv_heads can be {}",
        model.num_heads, model.num_kv_heads, divisors_near(model.num_heads, model.num_kv_heads));
  }
  if (model.is_latent()) return;  // has its own rules
  const auto rotary =
      static_cast<std::int64_t>(static_cast<double>(model.head_dim) * model.rope_percent);
  if (model.position == "rope" && (rotary < 2 || rotary % 2 != 0)) {
    fail_input(
        "model.position = \"rope\" rotates pairs, but head_dim = {} times rope_percent = {} gives "
        "{} rotated dimensions: make that an even number",
        model.head_dim, model.rope_percent, rotary);
  }
}

void check_rope_scaling(const ModelConfig& model) {
  if (model.rope_scaling == "none") {
    if (model.rope_scaling_factor == 1) return;
    fail_input(
        "model.rope_scaling_factor = {} does nothing without model.rope_scaling: set that to "
        "linear, llama3 or yarn",
        model.rope_scaling_factor);
  }
  if (model.position != "rope") {
    fail_input("model.rope_scaling = {:?} goes with model.position = \"rope\" only, not {:?}",
               model.rope_scaling, model.position);
  }
  if (model.rope_scaling_factor <= 1) {
    fail_input(
        "model.rope_scaling = {:?} needs model.rope_scaling_factor above 1, which divides the "
        "frequencies",
        model.rope_scaling);
  }
  if (model.rope_scaling == "llama3" && model.rope_high_freq_factor <= model.rope_low_freq_factor) {
    fail_input(
        "model.rope_high_freq_factor = {} must be above model.rope_low_freq_factor = {}: waves "
        "between the two lengths that they give are divided in part",
        model.rope_high_freq_factor, model.rope_low_freq_factor);
  }
}

void check_yarn(const ModelConfig& model) {
  if (model.rope_scaling != "yarn") return;
  if (model.rope_beta_fast <= model.rope_beta_slow) {
    fail_input(
        "model.rope_beta_fast = {} must be above model.rope_beta_slow = {}: pairs that turn as "
        "often "
        "as between the two are divided in part",
        model.rope_beta_fast, model.rope_beta_slow);
  }
}

// Latent attention: widths that go together, and what it has no place for.
void check_latent(const ModelConfig& m) {
  if (!m.is_latent()) {
    for (const auto& [key, value] : {std::pair{"q_lora_rank", m.q_lora_rank},
                                     {"qk_nope_head_dim", m.qk_nope_head_dim},
                                     {"qk_rope_head_dim", m.qk_rope_head_dim},
                                     {"v_head_dim", m.v_head_dim}}) {
      if (value > 0)
        fail_input(
            "model.{} = {} does nothing without model.kv_lora_rank: set that, or leave {} out", key,
            value, key);
    }
    return;
  }
  if (m.qk_nope_head_dim == 0 || m.qk_rope_head_dim == 0 || m.qk_rope_head_dim % 2 != 0) {
    fail_input(
        "model.kv_lora_rank = {} needs model.qk_nope_head_dim and an even model.qk_rope_head_dim, "
        "found {} and {}",
        m.kv_lora_rank, m.qk_nope_head_dim, m.qk_rope_head_dim);
  }
  if (m.head_dim != m.qk_nope_head_dim + m.qk_rope_head_dim) {
    fail_input(
        "model.head_dim = {} is not qk_nope_head_dim + qk_rope_head_dim = {} + {}, which it is "
        "with "
        "model.kv_lora_rank: leave head_dim out",
        m.head_dim, m.qk_nope_head_dim, m.qk_rope_head_dim);
  }
  if (m.v_head_dim > m.head_dim) {
    fail_input(
        "model.v_head_dim = {} is above the {} of queries and keys (qk_nope_head_dim + "
        "qk_rope_head_dim), which attention reads values as wide as: use at most that",
        m.v_head_dim, m.head_dim);
  }
  const auto refuse = [](bool set, const char* what, const char* instead) {
    if (set) fail_input("model.kv_lora_rank does not go with {}: use {}", what, instead);
  };
  refuse(m.num_kv_heads != m.num_heads, "model.num_kv_heads",
         "as many as model.num_heads, or leave it out");
  refuse(m.position != "rope", "positions other than rope", "model.position = \"rope\"");
  refuse(m.rope_percent != 1, "model.rope_percent", "model.qk_rope_head_dim");
  refuse(m.norm != "rms_norm", "norms other than rms_norm", "model.norm = \"rms_norm\"");
  refuse(m.qkv_bias, "biases of queries, keys and values", "model.qkv_bias = false");
  refuse(m.qk_norm, "model.qk_norm", "the norms that it has of its own");
}

void check_windows(const ModelConfig& model) {
  const auto& layers = model.window_layers;
  if (layers.empty()) return;
  if (model.attention_window == 0) {
    fail_input("model.window_layers does nothing without model.attention_window: set that");
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] >= model.num_layers) {
      fail_input("model.window_layers names layer {}, and model.num_layers = {} has layers 0 to {}",
                 layers[i], model.num_layers, model.num_layers - 1);
    }
    if (i > 0 && layers[i] <= layers[i - 1])
      fail_input("model.window_layers must rise: {} follows {}", layers[i], layers[i - 1]);
  }
}

void check_norms(const ModelConfig& model) {
  if (model.qk_norm || model.qk_norm_over == "head") return;
  fail_input("model.qk_norm_over = {:?} does nothing without model.qk_norm: set that to true",
             model.qk_norm_over);
}

// A norm over all heads of a position would have to be summed over the ranks that share them.
void check_wide_norms(const Config& config) {
  if (config.model.qk_norm_over != "all_heads" || config.parallel.tp == 1) return;
  fail_input(
      "model.qk_norm_over = \"all_heads\" does not go with parallel.tp = {} yet, which cuts the "
      "heads: set parallel.tp = 1 and use data parallelism, ZeRO, context parallelism or a "
      "pipeline",
      config.parallel.tp);
}

void check_rampup(const TrainConfig& train) {
  if (train.rampup_batch_size.empty()) return;
  if (train.rampup_batch_size.size() != 3) {
    fail_input(
        "train.rampup_batch_size takes three numbers (first batch size, increment, samples), "
        "found {}",
        train.rampup_batch_size.size());
  }
  const std::int64_t start = train.rampup_batch_size[0];
  const std::int64_t increment = train.rampup_batch_size[1];
  const std::int64_t global = train.global_batch_size;
  if (train.samples == 0) {
    fail_input(
        "train.rampup_batch_size needs a run measured in samples: set train.samples instead "
        "of train.iters");
  }
  if (start < 1 || increment < 1 || start > global || (global - start) % increment != 0) {
    fail_input(
        "train.rampup_batch_size = [{}, {}, ...] does not reach train.global_batch_size = {}: "
        "{} plus a whole number of steps of {} must give it",
        start, increment, global, start, increment);
  }
}

void check_batches(const TrainConfig& train) {
  if (train.global_batch_size % train.micro_batch_size != 0) {
    const std::int64_t fits = train.global_batch_size / train.micro_batch_size;
    fail_input(
        "train.global_batch_size = {} is not divisible by train.micro_batch_size = {}: "
        "global_batch_size can be {} (with several data-parallel ranks: a multiple of {} times "
        "their number), or micro_batch_size {}",
        train.global_batch_size, train.micro_batch_size,
        multiples_near(train.global_batch_size, train.micro_batch_size), train.micro_batch_size,
        fits == 0 ? fmt::format("{}", train.global_batch_size)
                  : divisors_near(train.global_batch_size, train.micro_batch_size));
  }
  check_rampup(train);
}

// Positions of a micro-batch are counted in 32 bits, also by the libraries that compute products.
void check_rows(const Config& config) {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  const std::int64_t batch = config.train.micro_batch_size, length = config.model.seq_length;
  if (length <= most && batch <= most / length) return;
  fail_input(
      "train.micro_batch_size = {} times model.seq_length = {} is more than {} tokens in a "
      "micro-batch: make one of them smaller",
      batch, length, most);
}

void check_length(const TrainConfig& train) {
  if (train.iters > 0 && train.samples > 0) {
    fail_input("train.iters = {} and train.samples = {} exclude each other: set one", train.iters,
               train.samples);
  }
  if (train.iters == 0 && train.samples == 0) {
    fail_input("[train] says no length: set train.iters or train.samples");
  }
  const auto& trace = train.trace_steps;
  if (!trace.empty() && (trace.size() != 2 || trace[0] > trace[1])) {
    fail_input(
        "train.trace_steps takes the first and the last iteration, as in [10, 12], found [{}]",
        fmt::join(trace, ", "));
  }
}

void check_curriculum(const Config& config) {
  const CurriculumConfig& c = config.curriculum;
  if (c.schedule == "none") return;
  if (c.iters < 1) fail_input("[curriculum] lacks iters: set the iterations until the full length");
  if (c.min_length < 1 || c.min_length > config.model.seq_length ||
      c.min_length % c.length_step != 0) {
    fail_input(
        "curriculum.min_length = {} must be a multiple of curriculum.length_step = {} and at most "
        "model.seq_length = {}",
        c.min_length, c.length_step, config.model.seq_length);
  }
}

// Lengths of the schedule are counted as the run is: in iterations or in samples.
void check_schedule_units(const TrainConfig& train, const OptimizerConfig& optimizer) {
  const bool by_samples = train.samples > 0;
  const auto check = [&](const char* name, std::int64_t in_iters, std::int64_t in_samples) {
    if ((by_samples ? in_iters : in_samples) == 0) return;
    const char* wrong = by_samples ? "iters" : "samples";
    const char* right = by_samples ? "samples" : "iters";
    fail_input("optimizer.{0}_{1} does not go with train.{2}: use optimizer.{0}_{2}", name, wrong,
               right);
  };
  check("decay", optimizer.decay_iters, optimizer.decay_samples);
  check("warmup", optimizer.warmup_iters, optimizer.warmup_samples);
  check("wsd_decay", optimizer.wsd_decay_iters, optimizer.wsd_decay_samples);
}

// A decay that counts tokens, after a warm-up in tokens, or in what the run is counted in.
void check_schedule_in_tokens(const OptimizerConfig& optimizer) {
  if (optimizer.decay_tokens == 0) {
    fail_input("optimizer.warmup_tokens = {} needs optimizer.decay_tokens",
               optimizer.warmup_tokens);
  }
  const auto exclude = [](const char* name, bool given, const char* instead) {
    if (given) fail_input("optimizer.{} does not go with optimizer.{}", name, instead);
  };
  exclude("decay_iters", optimizer.decay_iters > 0, "decay_tokens");
  exclude("decay_samples", optimizer.decay_samples > 0, "decay_tokens");
  exclude("decay_style = \"wsd\"", optimizer.decay_style == "wsd", "decay_tokens");
  exclude("warmup_fraction", optimizer.warmup_fraction > 0,
          "decay_tokens: use optimizer.warmup_tokens");
  const bool counted = optimizer.warmup_iters > 0 || optimizer.warmup_samples > 0;
  exclude(optimizer.warmup_iters > 0 ? "warmup_iters" : "warmup_samples",
          counted && optimizer.warmup_tokens > 0, "warmup_tokens");
  if (optimizer.warmup_tokens >= optimizer.decay_tokens) {
    fail_input(
        "optimizer.warmup_tokens = {} leaves nothing of the decay, which ends at {} tokens: "
        "shorten the warm-up or raise optimizer.decay_tokens",
        optimizer.warmup_tokens, optimizer.decay_tokens);
  }
}

void check_schedule(const TrainConfig& train, const OptimizerConfig& optimizer) {
  check_schedule_units(train, optimizer);
  if (optimizer.decay_tokens > 0 || optimizer.warmup_tokens > 0)
    return check_schedule_in_tokens(optimizer);
  const bool by_samples = train.samples > 0;
  const char* unit = by_samples ? "samples" : "iters";
  const std::int64_t warmup = by_samples ? optimizer.warmup_samples : optimizer.warmup_iters;
  const std::int64_t given_decay = by_samples ? optimizer.decay_samples : optimizer.decay_iters;
  const std::int64_t decay = given_decay > 0 ? given_decay
                             : by_samples    ? train.samples
                                             : train.iters;
  if (warmup > 0 && optimizer.warmup_fraction > 0) {
    fail_input(
        "optimizer.warmup_{} = {} and optimizer.warmup_fraction = {} exclude each other: set one",
        unit, warmup, optimizer.warmup_fraction);
  }
  if (optimizer.decay_style == "constant") return;
  if (warmup >= decay) {
    fail_input(
        "optimizer.warmup_{0} = {1} leaves nothing of the decay, which ends at {2} {0}: "
        "shorten the warm-up or set optimizer.decay_{0} above it",
        unit, warmup, decay);
  }
  if (optimizer.decay_style != "wsd") return;
  const std::int64_t anneal = by_samples ? optimizer.wsd_decay_samples : optimizer.wsd_decay_iters;
  const double room =
      static_cast<double>(decay) -
      std::max(static_cast<double>(warmup), optimizer.warmup_fraction * static_cast<double>(decay));
  if (anneal < 1 || static_cast<double>(anneal) > room) {
    fail_input(
        "optimizer.decay_style = \"wsd\" needs optimizer.wsd_decay_{} between 1 and {} (the "
        "decay without the warm-up), found {}",
        unit, static_cast<std::int64_t>(room), anneal);
  }
}

void check_rates(const RunConfig& run, const OptimizerConfig& optimizer) {
  if (optimizer.lr <= 0)
    fail_input("[optimizer] lacks lr: set the learning rate, for example 3e-4");
  const auto check = [&](const char* name, double value) {
    if (value > optimizer.lr) {
      fail_input("optimizer.{} = {} is above optimizer.lr = {}: lower it", name, value,
                 optimizer.lr);
    }
  };
  check("min_lr", optimizer.min_lr);
  check("warmup_init_lr", optimizer.warmup_init_lr);
  if (run.precision == "fp16" && optimizer.min_loss_scale > optimizer.initial_loss_scale) {
    fail_input("optimizer.min_loss_scale = {} is above optimizer.initial_loss_scale = {}",
               optimizer.min_loss_scale, optimizer.initial_loss_scale);
  }
}

template <class CheckDecay>
void check_muon(const OptimizerConfig& optimizer, const CheckDecay& check_decay) {
  check_decay("muon_momentum", optimizer.muon_momentum);
  if (optimizer.muon_coefficients == "quintic" && optimizer.muon_steps % 5 != 0) {
    fail_input(
        "optimizer.muon_steps = {} does not go with optimizer.muon_coefficients = \"quintic\", "
        "which are five sets: use {}, or \"simple\"",
        optimizer.muon_steps, (optimizer.muon_steps + 4) / 5 * 5);
  }
}

// Decay rates so close to 1 that a 32-bit number cannot tell them from it, and an epsilon that
// vanishes next to moments that are too small for 32 bits, would turn steps into infinities.
void check_moments(const RunConfig& run, const OptimizerConfig& optimizer) {
  const bool wide = run.precision == "fp64";
  constexpr double largest_decay = 0.9999999;
  const auto check_decay = [&](const char* name, double decay) {
    if (wide || decay <= largest_decay) return;
    fail_input(
        "optimizer.{} = {} is too close to 1 for 32-bit arithmetic: use at most {}, or "
        "run.precision = \"fp64\"",
        name, decay, largest_decay);
  };
  if (optimizer.name == "sgd") return check_decay("momentum", optimizer.momentum);
  if (optimizer.name == "lion") {
    check_decay("lion_beta1", optimizer.lion_beta1);
    return check_decay("lion_beta2", optimizer.lion_beta2);
  }
  if (optimizer.name == "muon") check_muon(optimizer, check_decay);
  check_decay("beta1", optimizer.beta1);
  check_decay("beta2", optimizer.beta2);
  const double smallest_eps = wide ? 1e-150 : 1e-20;
  if (optimizer.eps < smallest_eps) {
    fail_input(
        "optimizer.eps = {} is too small for {}-bit moments, whose squares vanish first: use at "
        "least {}",
        optimizer.eps, wide ? 64 : 32, smallest_eps);
  }
}

// Sums and moments of 16 bits, which round.
void check_narrow_states(const Config& config) {
  const bool gradients = config.run.gradient_dtype != "fp32";
  const bool moments = config.optimizer.moment_dtype != "fp32";
  if (config.run.precision == "fp64" && (gradients || moments)) {
    fail_input(
        "{} = \"bf16\" does not go with run.precision = \"fp64\", which keeps everything in "
        "64 bits: use fp32",
        gradients ? "run.gradient_dtype" : "optimizer.moment_dtype");
  }
  if (gradients && config.parallel.numerics == "exact") {
    fail_input(
        "run.gradient_dtype = {:?} does not go with parallel.numerics = \"exact\", which sums "
        "gradients as 64-bit integers: use numerics = \"fast\", or gradient_dtype = \"fp32\"",
        config.run.gradient_dtype);
  }
}

void check_export(const CheckpointConfig& checkpoint) {
  const std::int64_t every = checkpoint.export_interval;
  if (every == 0) return;
  if (checkpoint.export_format == "none") {
    fail_input(
        "checkpoint.export_interval = {} needs checkpoint.export = \"hf\", which says what is "
        "written",
        every);
  }
  if (checkpoint.interval == 0) {
    fail_input(
        "checkpoint.export_interval = {} needs checkpoint.interval, which is 0 (only the last step "
        "is saved): set it to {} or a divisor of it",
        every, every);
  }
  if (every % checkpoint.interval != 0) {
    fail_input(
        "checkpoint.export_interval = {} must be a multiple of checkpoint.interval = {}: what is "
        "exported is a checkpoint",
        every, checkpoint.interval);
  }
}

// The newest checkpoint that is old enough must still be there, also where saves came late.
void check_spikes(const Config& config) {
  if (config.train.spike_policy != "back") return;
  const std::int64_t interval = config.checkpoint.interval, keep = config.checkpoint.keep;
  if (interval == 0) {
    fail_input(
        "train.spike_policy = \"back\" goes on from an earlier checkpoint and needs "
        "checkpoint.interval, which is 0 (only the last step is saved): set it, or use \"skip\"");
  }
  if (keep == 0) return;
  fail_input(
      "checkpoint.keep = {} may remove the checkpoint that train.spike_policy = \"back\" goes on "
      "from, since those of interruptions count too: set checkpoint.keep = 0, or use \"skip\"",
      keep);
}

void check_local(const CheckpointConfig& checkpoint) {
  // A kill while one is being written in the background would leave local ones that came after
  // none.
  if (checkpoint.local_interval > 0 && checkpoint.async) {
    fail_input(
        "checkpoint.local_interval = {} does not go with checkpoint.async = true yet: set one of "
        "them",
        checkpoint.local_interval);
  }
  if (checkpoint.local_dir.empty() == (checkpoint.local_interval == 0)) return;
  if (checkpoint.local_dir.empty()) {
    fail_input(
        "checkpoint.local_interval = {} needs checkpoint.local_dir: a folder on a disk of each "
        "node",
        checkpoint.local_interval);
  }
  fail_input(
      "checkpoint.local_dir = '{}' needs checkpoint.local_interval: how many iterations lie "
      "between "
      "two saves there",
      checkpoint.local_dir);
}

void check_offload(const Config& config) {
  const OffloadConfig& offload = config.offload;
  if (offload.activation_layers > 0 && offload.activations == "none") {
    fail_input(
        "offload.activation_layers = {} needs offload.activations, which is \"none\": set it to "
        "\"file\", or leave activation_layers out",
        offload.activation_layers);
  }
  if (offload.activation_layers > config.model.num_layers) {
    fail_input("offload.activation_layers = {}: the model has {} layers; 0 is all of them",
               offload.activation_layers, config.model.num_layers);
  }
  if (offload.activations == "file" && config.parallel.distribute_saved_activations) {
    fail_input(
        "offload.activations = \"file\" and parallel.distribute_saved_activations both take the "
        "inputs of layers out of memory: keep one of them");
  }
  if (offload.activations == "file" && offload.path.empty()) {
    fail_input(
        "offload.activations = \"file\" needs offload.path: a folder on a local disk; `trireme "
        "plan` prints how much space it takes");
  }
  if (offload.optimizer != "file") return;
  if (offload.path.empty()) {
    fail_input(
        "offload.optimizer = \"file\" needs offload.path: a folder on a local disk with space for "
        "the states, 12 bytes per parameter with run.precision = \"bf16\" and adamw");
  }
  if (config.checkpoint.async) {
    fail_input(
        "checkpoint.async = true copies into memory the states that offload.optimizer = \"file\" "
        "keeps out of it: use checkpoint.async = false");
  }
}

// Three numbers or fewer, not negative, not all zero.
bool is_split(const std::string& text) {
  double sum = 0;
  int count = 0;
  for (const char *at = text.data(), *end = at + text.size();; ++at) {
    while (at < end && *at == ' ') ++at;
    double share = 0;
    const auto [next, error] = std::from_chars(at, end, share);
    if (error != std::errc() || !std::isfinite(share) || share < 0 || ++count > 3) return false;
    sum += share;
    at = next;
    while (at < end && *at == ' ') ++at;
    if (at == end) return sum > 0;
    if (*at != ',' && *at != '/') return false;
  }
}

void check_data(const DataConfig& data) {
  const bool apart =
      !data.train_path.empty() || !data.valid_path.empty() || !data.test_path.empty();
  if (!data.path.empty() && apart) {
    fail_input(
        "data.path, which data.split cuts, excludes data.train_path, data.valid_path and "
        "data.test_path: keep one form");
  }
  if (!is_split(data.split)) {
    fail_input("data.split = {:?} is not up to three shares such as \"969,30,1\"", data.split);
  }
}

// Training straight from text: what it goes with.
void check_sources(const Config& config) {
  const DataConfig& data = config.data;
  if (data.sources.empty() && data.valid_sources.empty()) return;
  const char* const key = data.sources.empty() ? "data.valid_sources" : "data.sources";
  if (!data.path.empty()) fail_input("{} and data.path exclude each other: keep one of them", key);
  if (!data.sources.empty() && !data.train_path.empty()) {
    fail_input("data.sources and data.train_path exclude each other: keep one of them");
  }
  if (!data.valid_sources.empty() && !data.valid_path.empty()) {
    fail_input("data.valid_sources and data.valid_path exclude each other: keep one of them");
  }
  if (data.tokenizer.empty()) {
    fail_input("{} needs data.tokenizer and its files: texts are tokenised while training", key);
  }
  if (data.source_keys.empty()) {
    fail_input("data.source_keys = [] names no key: expected one for all sources or one for each");
  }
  if (family_of(config.model).samples == SampleKind::masked_words) {
    fail_input(
        "{}: model.family = {:?} reads sentences; expected data.path and files made by `trireme "
        "preprocess --split-sentences`",
        key, config.model.family);
  }
  if (data.fim_rate > 0) {
    fail_input("{}: data.fim_rate = {} is for data.path only; expected 0", key, data.fim_rate);
  }
}

void check_run(const Config& config) {
  if (config.run.dir.empty())
    fail_input("run.dir = \"\" names no folder: set it, for example to \"runs/my-run\"");
  if (!config.run.memory.empty()) parse_byte_size(config.run.memory, "run.memory");
  const ParallelConfig& p = config.parallel;
  if (p.recompute_layers > 0 && p.recompute != "full") {
    fail_input(
        "parallel.recompute_layers = {} goes with parallel.recompute = \"full\" only, not {:?}: "
        "set "
        "that or leave recompute_layers out",
        p.recompute_layers, p.recompute);
  }
  if (p.distribute_saved_activations && p.recompute != "full") {
    fail_input(
        "parallel.distribute_saved_activations cuts the inputs of layers, which are all that "
        "parallel.recompute = \"full\" saves; it is {:?}: set it to \"full\", or use "
        "parallel.sequence_parallel, which cuts what is saved with any",
        p.recompute);
  }
}

}  // namespace

void validate(const ModelConfig& model) {
  check_sizes(model);
  check_absurd(model);
  check_heads(model);
  check_latent(model);
  check_windows(model);
  check_rope_scaling(model);
  check_yarn(model);
  check_norms(model);
  refuse_for_family(model);
  check_experts(model);
}

void refuse_for_device(const Config& config) {
  if (config.run.device == "cpu") return;
  if (config.run.precision == "fp64")
    fail_input("run.precision = \"fp64\": only run.device = \"cpu\" computes in fp64");
  const ModelConfig& m = config.model;
  for (const auto& [used, key] : {std::pair{m.is_latent(), "model.kv_lora_rank"},
                                  {m.moe.residual, "moe.residual = true"},
                                  {m.moe.keeps_load(), "moe.aux_loss = \"global\""}}) {
    if (!used) continue;
    fail_input("{} needs run.device = \"cpu\": it has not been written for {:?} yet", key,
               config.run.device);
  }
}

void validate(const Config& config) {
  validate(config.model);
  refuse_for_family(config);
  refuse_for_device(config);
  check_wide_norms(config);
  check_experts(config);
  check_fp8(config);
  check_run(config);
  check_rows(config);
  check_activations(config);
  check_length(config.train);
  check_batches(config.train);
  check_rates(config.run, config.optimizer);
  check_moments(config.run, config.optimizer);
  check_export(config.checkpoint);
  check_spikes(config);
  check_local(config.checkpoint);
  check_offload(config);
  check_narrow_states(config);
  check_schedule(config.train, config.optimizer);
  check_data(config.data);
  check_sources(config);
  check_curriculum(config);
}

}  // namespace trireme
