// Rules that hold on any number of ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "base/divide.h"
#include "base/error.h"
#include "config/batch_sizes.h"
#include "config/blend_list.h"
#include "config/config.h"
#include "config/divisors.h"
#include "config/experts.h"
#include "config/families.h"
#include "config/fp8.h"
#include "config/offload.h"
#include "config/optimization.h"
#include "config/saving.h"

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

double number(std::int64_t n) {
  return static_cast<double>(n);
}

// Parameters of the small and the large products of latent attention, in one layer.
double latent_parameters(const ModelConfig& m) {
  const double hidden = number(m.hidden_size), heads = number(m.num_heads);
  const double queries = number(m.q_lora_rank), keys = number(m.kv_lora_rank);
  return (hidden + heads * number(m.head_dim)) * queries +
         (hidden + heads * number(m.qk_nope_head_dim + m.v_head_dim)) * keys;
}

// Parameters of all experts and of the shared one, in one layer.
double expert_parameters(const ModelConfig& m) {
  const ExpertConfig& moe = m.moe;
  if (moe.num_experts == 0) return 0;
  return 3 * number(m.hidden_size) *
         (number(moe.num_experts) * number(moe.ffn_hidden_size) +
          number(moe.shared_ffn_hidden_size));
}

// Numbers that no machine holds are refused before anything grows with them.
void check_absurd(const ModelConfig& model) {
  const double hidden = number(model.hidden_size), heads = number(model.num_heads);
  const double experts = expert_parameters(model), latent = latent_parameters(model);
  const double parameters =
      number(model.num_layers) * (4 * hidden * heads * number(model.head_dim) +
                                  3 * hidden * number(model.ffn_hidden_size) + experts + latent) +
      hidden * (number(model.vocab_size) + number(model.max_positions));
  if (parameters > kMostParameters) {
    fail_input(
        "[model] has about {:.1g} parameters, and at most {:.0g} are supported: check num_layers, "
        "hidden_size, num_heads, head_dim, ffn_hidden_size and vocab_size{}{}",
        parameters, kMostParameters, latent > 0 ? ", kv_lora_rank and q_lora_rank" : "",
        experts > 0 ? ", and num_experts and the sizes of [moe]" : "");
  }
}

// The widest of what a layer makes of a position, and its name.
std::pair<std::string, std::int64_t> widest_activation(const ModelConfig& m) {
  std::pair<std::string, std::int64_t> widest = {"hidden_size", m.hidden_size};
  const auto compare = [&](const char* name, std::int64_t size) {
    if (size > widest.second) widest = {name, size};
  };
  compare("ffn_hidden_size", m.ffn_hidden_size);
  compare("num_heads x head_dim", m.num_heads * m.head_dim);
  if (m.moe.num_experts == 0) return widest;
  compare("moe.top_k x moe.ffn_hidden_size", m.moe.top_k * m.moe.ffn_hidden_size);
  compare("moe.shared_ffn_hidden_size", m.moe.shared_ffn_hidden_size);
  return widest;
}

void check_activations(const Config& config) {
  const auto [name, width] = widest_activation(config.model);
  const double kept = number(config.train.micro_batch_size) * number(config.model.seq_length) *
                      number(width) * number(config.model.num_layers);
  if (kept <= kMostActivations) return;
  fail_input(
      "train.micro_batch_size x model.seq_length x {} x num_layers = {} x {} x {} x {} "
      "activations are too many, at most {:.0g} are supported: use a smaller micro-batch",
      name, config.train.micro_batch_size, config.model.seq_length, width, config.model.num_layers,
      kMostActivations);
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
  if (model.position == PositionEncoding::rope && (rotary < 2 || rotary % 2 != 0)) {
    fail_input(
        "model.position = \"rope\" rotates pairs, but head_dim = {} times rope_percent = {} gives "
        "{} rotated dimensions: make that an even number",
        model.head_dim, model.rope_percent, rotary);
  }
}

void check_rope_scaling(const ModelConfig& model) {
  if (model.rope_scaling == RopeScaling::none) {
    if (model.rope_scaling_factor == 1) return;
    fail_input(
        "model.rope_scaling_factor = {} does nothing without model.rope_scaling: set that to "
        "linear, llama3 or yarn",
        model.rope_scaling_factor);
  }
  if (model.position != PositionEncoding::rope) {
    fail_input("model.rope_scaling = {:?} goes with model.position = \"rope\" only, not {:?}",
               model.rope_scaling, model.position);
  }
  // A factor of 1 leaves the frequencies alone, and yarn may still multiply queries and keys.
  const bool multiplies =
      model.rope_scaling == RopeScaling::yarn && model.rope_attention_factor > 0;
  if (model.rope_scaling_factor <= 1 && !multiplies) {
    fail_input(
        "model.rope_scaling = {:?} needs model.rope_scaling_factor above 1, which divides the "
        "frequencies",
        model.rope_scaling);
  }
  if (model.rope_scaling == RopeScaling::llama3 &&
      model.rope_high_freq_factor <= model.rope_low_freq_factor) {
    fail_input(
        "model.rope_high_freq_factor = {} must be above model.rope_low_freq_factor = {}: waves "
        "between the two lengths that they give are divided in part",
        model.rope_high_freq_factor, model.rope_low_freq_factor);
  }
}

void check_yarn(const ModelConfig& model) {
  if (model.rope_scaling != RopeScaling::yarn) return;
  if (model.rope_beta_fast < model.rope_beta_slow) {
    fail_input(
        "model.rope_beta_fast = {} must not be below model.rope_beta_slow = {}: pairs that turn as "
        "often as between the two are divided in part",
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
    if (set) fail_input("model.kv_lora_rank conflicts with {}: use {}", what, instead);
  };
  refuse(m.num_kv_heads != m.num_heads, "model.num_kv_heads",
         "as many as model.num_heads, or leave it out");
  refuse(m.position != PositionEncoding::rope, "positions other than rope",
         "model.position = \"rope\"");
  refuse(m.rope_percent != 1, "model.rope_percent", "model.qk_rope_head_dim");
  refuse(m.norm != NormType::rms_norm, "norms other than rms_norm", "model.norm = \"rms_norm\"");
  refuse(m.qkv_bias, "biases of queries, keys and values", "model.qkv_bias = false");
  refuse(m.qk_norm, "model.qk_norm", "the norms that it has of its own");
}

// Keys that do nothing without others.
void check_idle_keys(const ModelConfig& m) {
  if (m.latent_norm_eps > 0 && !m.is_latent())
    fail_input("model.latent_norm_eps = {} does nothing without model.kv_lora_rank",
               m.latent_norm_eps);
  if (!m.rope_truncate && m.rope_scaling != RopeScaling::yarn)
    fail_input("model.rope_truncate = false does nothing without model.rope_scaling = \"yarn\"");
  if (m.order_head && !m.token_types)
    fail_input(
        "model.token_types = false conflicts with model.order_head = true, which tells two "
        "segments apart: set order_head to false too");
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
  if (model.qk_norm || model.qk_norm_over == NormSpan::head) return;
  fail_input("model.qk_norm_over = {:?} does nothing without model.qk_norm: set that to true",
             model.qk_norm_over);
}

void check_soft_cap(const ModelConfig& model) {
  constexpr double least = 1e-3;  // the inverse of smaller ones leaves fp32 and fp16
  for (const auto& [name, cap] : {std::pair{"attention_soft_cap", model.attention_soft_cap},
                                  {"logit_soft_cap", model.logit_soft_cap}}) {
    if (cap == 0 || cap >= least) continue;
    fail_input("model.{} = {} is too small: a cap is at least {}, or 0 for none", name, cap, least);
  }
  if (model.attention_soft_cap == 0 || model.position != PositionEncoding::alibi) return;
  fail_input(
      "model.attention_soft_cap = {} conflicts with model.position = \"alibi\", whose slopes no "
      "published model caps: leave it out, or use another position",
      model.attention_soft_cap);
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

void check_schedule(const Config& config) {
  const TrainConfig& train = config.train;
  if (batch_size_schedule(config).empty()) return;
  const auto exclude = [](bool given, const char* key) {
    if (given) {
      fail_input(
          "train.batch_size_schedule and {} exclude each other: keep the one that says how the "
          "batch grows",
          key);
    }
  };
  exclude(train.global_batch_size > 0, "train.global_batch_size");
  exclude(!train.rampup_batch_size.empty(), "train.rampup_batch_size");
  if (train.samples == 0) {
    fail_input(
        "train.batch_size_schedule needs a run measured in samples: set train.samples instead of "
        "train.iters");
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

// Positions of a micro-batch, and the choices that they make of experts, are counted in 32 bits,
// also by the libraries that compute products.
void check_rows(const Config& config) {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  const std::int64_t batch = config.train.micro_batch_size, length = config.model.seq_length;
  if (length > most || batch > most / length) {
    fail_input(
        "train.micro_batch_size = {} times model.seq_length = {} is more than {} tokens in a "
        "micro-batch: make one of them smaller",
        batch, length, most);
  }
  const ExpertConfig& moe = config.model.moe;
  if (moe.num_experts == 0 || moe.top_k <= most / (batch * length)) return;
  fail_input(
      "moe.top_k = {} choices of train.micro_batch_size = {} times model.seq_length = {} tokens "
      "are more than {} in a micro-batch: use a micro_batch_size of at most {}, or a smaller top_k",
      moe.top_k, batch, length, most, most / length / moe.top_k);
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
  if (c.schedule == CurriculumSchedule::none) return;
  if (c.iters < 1) fail_input("[curriculum] lacks iters: set the iterations until the full length");
  if (c.min_length < 1 || c.min_length > config.model.seq_length ||
      c.min_length % c.length_step != 0) {
    fail_input(
        "curriculum.min_length = {} must be a multiple of curriculum.length_step = {} and at most "
        "model.seq_length = {}",
        c.min_length, c.length_step, config.model.seq_length);
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
  for (const auto& [key, list] : {std::pair{"data.path", &data.path},
                                  {"data.train_path", &data.train_path},
                                  {"data.valid_path", &data.valid_path},
                                  {"data.test_path", &data.test_path},
                                  {"data.sources", &data.sources},
                                  {"data.valid_sources", &data.valid_sources}})
    parse_blend(*list, key);
}

// Training straight from text: its restrictions.
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
    fail_input("{} needs data.tokenizer and its files: texts are tokenized while training", key);
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

void check_run_section(const Config& config) {
  if (config.run.dir.empty())
    fail_input("run.dir = \"\" names no folder: set it, for example to \"runs/my-run\"");
  if (!config.run.memory.empty()) parse_byte_size(config.run.memory, "run.memory");
  const ParallelConfig& p = config.parallel;
  if (p.recompute_layers > 0 && p.recompute != Recompute::full) {
    fail_input(
        "parallel.recompute_layers = {} goes with parallel.recompute = \"full\" only, not {:?}: "
        "set "
        "that or leave recompute_layers out",
        p.recompute_layers, p.recompute);
  }
  if (p.distribute_saved_activations && p.recompute != Recompute::full) {
    fail_input(
        "parallel.distribute_saved_activations cuts the inputs of layers, which are all that "
        "parallel.recompute = \"full\" saves; it is {:?}: set it to \"full\", or use "
        "parallel.sequence_parallel, which cuts what is saved with any",
        p.recompute);
  }
}

void check_numerics(const Config& config) {
  if (config.parallel.numerics != Numerics::exact || config.run.precision != Precision::fp64)
    return;
  fail_input(
      "parallel.numerics = \"exact\" adds up 32-bit gradients; with run.precision = \"fp64\" use "
      "fast");
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
  check_idle_keys(model);
  check_norms(model);
  check_soft_cap(model);
  refuse_for_family(model);
  check_experts(model);
}

void refuse_for_device(const Config& config) {
  if (config.run.device == DeviceKind::cpu) return;
  if (config.run.precision == Precision::fp64)
    fail_input("run.precision = \"fp64\": only run.device = \"cpu\" computes in fp64");
}

void validate(const Config& config) {
  validate(config.model);
  refuse_for_family(config);
  refuse_for_device(config);
  check_experts(config);
  check_fp8(config);
  check_run_section(config);
  check_numerics(config);
  check_rows(config);
  check_activations(config);
  check_length(config.train);
  check_batches(config.train);
  check_schedule(config);
  check_optimization(config);
  check_saving(config);
  check_offload(config);
  check_data(config.data);
  check_sources(config);
  check_curriculum(config);
}

}  // namespace trireme
