// Keys in Meta's params.json. Not every program accepts all of them: Llama 2's code fails on
// rope_theta, without which Llama 3's would use another base.
#include "formats/llama/params.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/same_model.h"

namespace trireme {
namespace {

struct InnerWidth {
  std::int64_t multiple_of = 1;
  std::optional<double> multiplier;
};

// The multiplier with the fewest decimals that yields the width for a given multiple_of.
std::optional<double> find_multiplier(const ModelConfig& m, std::int64_t multiple_of,
                                      int decimals) {
  const double scale = std::pow(10.0, decimals);
  const double wanted = static_cast<double>(m.ffn_hidden_size) /
                        static_cast<double>(llama_inner_width(m.hidden_size, 1, {}));
  for (const double tenths : {std::floor(wanted * scale), std::ceil(wanted * scale)}) {
    const double multiplier = tenths / scale;
    const bool fits =
        llama_inner_width(m.hidden_size, multiple_of, multiplier) == m.ffn_hidden_size;
    if (tenths > 0 && fits) return multiplier;
  }
  return std::nullopt;
}

InnerWidth find_inner_width(const ModelConfig& m) {
  constexpr std::int64_t widest = 4096;
  if (llama_inner_width(m.hidden_size, 256, {}) == m.ffn_hidden_size) return {256, {}};
  for (std::int64_t multiple = widest; multiple > 0; multiple /= 2)
    if (llama_inner_width(m.hidden_size, multiple, {}) == m.ffn_hidden_size) return {multiple, {}};
  for (int decimals = 1; decimals <= 9; ++decimals) {
    for (std::int64_t multiple = widest; multiple > 0; multiple /= 2)
      if (const auto multiplier = find_multiplier(m, multiple, decimals))
        return {multiple, multiplier};
  }
  fail_input(
      "cannot write a Meta Llama folder: params.json derives the inner width from the hidden size, "
      "and none of its keys can express model.ffn_hidden_size = {} for {}",
      m.ffn_hidden_size, m.hidden_size);
}

constexpr std::array<const char*, 15> known_params{
    "dim",         "n_layers",       "n_heads",         "n_kv_heads",          "head_dim",
    "vocab_size",  "multiple_of",    "norm_eps",        "ffn_dim_multiplier",  "rope_theta",
    "max_seq_len", "max_batch_size", "use_scaled_rope", "rope_scaling_factor", "high_freq_factor"};

void refuse_unknown(const HuggingFaceReader& json) {
  for (const auto& [key, value] : json.json().items()) {
    if (std::ranges::find(known_params, key) != known_params.end()) continue;
    fail_input("'{}' has the key '{}', which models of this kind do not have; known are {}",
               json.name(), key, fmt::join(known_params, ", "));
  }
}

void check_inner_width(const HuggingFaceReader& json, const ModelConfig& m) {
  if (!json.has("multiple_of")) return;
  const std::int64_t multiple = json.size("multiple_of", "ffn_hidden_size");
  std::optional<double> factor;
  if (json.has("ffn_dim_multiplier")) {
    const auto& value = json["ffn_dim_multiplier"];
    if (!value.is_number()) json.refuse("ffn_dim_multiplier", "it must be a number");
    factor = value.get<double>();
    if (!(*factor > 0 && *factor < 1000)) {
      fail_input("'{}' has ffn_dim_multiplier = {}, but a number between 0 and 1000 was expected",
                 json.name(), *factor);
    }
  }
  const std::int64_t width = llama_inner_width(m.hidden_size, multiple, factor);
  if (width == m.ffn_hidden_size) return;
  fail_input(
      "'{}' implies an inner width of {} (dim, multiple_of, ffn_dim_multiplier), but "
      "'layers.0.feed_forward.w1.weight' has {} rows over all files",
      json.name(), width, m.ffn_hidden_size);
}

// Positions and RoPE scaling, mostly missing in params.json; returns what was assumed.
std::string assume_positions(const HuggingFaceReader& json, ModelConfig& m) {
  std::string assumed;
  const bool scaled = json.flag("use_scaled_rope", false);
  if (scaled) {
    m.rope_scaling = RopeScaling::llama3;
    m.rope_low_freq_factor = 1;
    m.rope_high_freq_factor = json.number("high_freq_factor", "rope_high_freq_factor", 4);
    m.rope_original_length = 8192;
    m.rope_scaling_factor = json.number("rope_scaling_factor", "rope_scaling_factor",
                                        likely_llama_scaling(m.tie_embeddings));
    if (!json.has("rope_scaling_factor"))
      assumed = fmt::format("model.rope_scaling_factor={} and ", m.rope_scaling_factor);
  }
  const std::int64_t likely = likely_llama_positions(scaled, m.rope_base);
  m.max_positions = json.size("max_seq_len", "max_positions", likely);
  if (!json.has("max_seq_len")) return fmt::format("{}model.max_positions={}", assumed, likely);
  return scaled && !assumed.empty() ? assumed.substr(0, assumed.size() - 5) : "";
}

// The tensors that a model of ours will have.
class OwnTensors : public LlamaTensors {
 public:
  explicit OwnTensors(const ModelConfig& model) : m_(model) {}
  void check_queries(std::int64_t) const override {}
  std::int64_t inner_width() const override { return m_.ffn_hidden_size; }
  std::int64_t words(std::int64_t) const override { return m_.vocab_size; }
  bool is_tied() const override { return m_.tie_embeddings; }

 private:
  const ModelConfig& m_;
};

// No key has the number of positions, so a note reports it.
void require_same_when_read(const ModelConfig& model, const std::string& text) {
  const std::string name = llama_params_file;
  const HuggingFaceReader json(text, name);
  std::string assumed;
  ModelConfig said = read_llama_params(json, OwnTensors(model), assumed);
  said.max_positions = model.max_positions;
  const auto found = differences_of_results(model, said);
  if (found.empty()) return;
  fail_input("cannot write a Meta Llama folder: its models have no equivalent of {} = {}",
             found[0].key, found[0].value);
}

}  // namespace

ModelConfig read_llama_params(const HuggingFaceReader& json, const LlamaTensors& tensors,
                              std::string& assumed) {
  refuse_unknown(json);
  ModelConfig m;
  m.family = "llama";
  m.position = PositionEncoding::rope;
  m.norm = NormType::rms_norm;
  m.activation = MlpActivation::swiglu;
  m.bias = m.qkv_bias = false;
  m.num_layers = json.size("n_layers", "num_layers");
  m.hidden_size = json.size("dim", "hidden_size");
  m.num_heads = json.size("n_heads", "num_heads");
  m.num_kv_heads = json.size("n_kv_heads", "num_kv_heads", m.num_heads);
  m.head_dim = json.size("head_dim", "head_dim", m.hidden_size / m.num_heads);
  m.norm_eps = json.number("norm_eps", "norm_eps", 1e-5);
  m.rope_base = json.number("rope_theta", "rope_base", 10000);
  tensors.check_queries(m.num_heads * m.head_dim);
  m.ffn_hidden_size = tensors.inner_width();
  check_inner_width(json, m);
  m.tie_embeddings = tensors.is_tied();
  // Llama 2 has -1: the tokenizer's size.
  const bool told = json.has("vocab_size") && json["vocab_size"] != -1;
  m.vocab_size = told ? json.size("vocab_size", "vocab_size") : tensors.words(m.hidden_size);
  assumed = assume_positions(json, m);
  m.seq_length = m.max_positions;
  m.given = {"bias", "qkv_bias", "tie_embeddings", "norm_eps"};
  resolve(m);
  return m;
}

std::string llama_file_name(std::size_t rank) {
  return fmt::format("consolidated.{:02d}.pth", rank);
}

std::int64_t llama_inner_width(std::int64_t hidden_size, std::int64_t multiple_of,
                               std::optional<double> multiplier) {
  std::int64_t width = 2 * (4 * hidden_size) / 3;
  if (multiplier) width = static_cast<std::int64_t>(*multiplier * static_cast<double>(width));
  return (width + multiple_of - 1) / multiple_of * multiple_of;
}

std::int64_t likely_llama_positions(bool scaled, double rope_base) {
  if (scaled) return 131072;
  if (rope_base >= 1e6) return 16384;
  return rope_base > 1e4 ? 8192 : 4096;
}

double likely_llama_scaling(bool tied) {
  // Among published models with RoPE scaling, those with tied embeddings use a factor of 32.
  return tied ? 32 : 8;
}

std::string llama_params(const ModelConfig& m) {
  const InnerWidth width = find_inner_width(m);
  nlohmann::ordered_json params{{"dim", m.hidden_size},       {"n_layers", m.num_layers},
                                {"n_heads", m.num_heads},     {"n_kv_heads", m.num_kv_heads},
                                {"vocab_size", m.vocab_size}, {"multiple_of", width.multiple_of},
                                {"norm_eps", m.norm_eps},     {"rope_theta", m.rope_base}};
  if (width.multiplier) params["ffn_dim_multiplier"] = *width.multiplier;
  if (m.rope_scaling == RopeScaling::llama3) {
    params["use_scaled_rope"] = true;
    if (m.rope_scaling_factor != 8 || m.tie_embeddings)
      params["rope_scaling_factor"] = m.rope_scaling_factor;
  }
  std::string text = params.dump(2) + "\n";
  require_same_when_read(m, text);
  return text;
}

}  // namespace trireme
