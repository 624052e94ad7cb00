// Attention of a model that torchtitan printed: grouped queries or latent vectors, rotary
// positions and windows.
#include <fmt/format.h>

#include <cmath>

#include "importers/settings/torchtitan_modules.h"

namespace trireme::settings {
namespace {

// Keys that only the scaling of their name reads.
struct ScalingKeys {
  const char* scaling;
  std::vector<std::pair<const char*, const char*>> settings;
};
const ScalingKeys scalings[] = {
    {"llama",
     {{"scaling_factor", "model.rope_scaling_factor"},
      {"low_freq_factor", "model.rope_low_freq_factor"},
      {"high_freq_factor", "model.rope_high_freq_factor"},
      {"original_max_position_embeddings", "model.rope_original_length"}}},
    {"yarn",
     {{"rope_factor", "model.rope_scaling_factor"},
      {"beta_fast", "model.rope_beta_fast"},
      {"beta_slow", "model.rope_beta_slow"},
      {"original_seq_len", "model.rope_original_length"}}}};

// Whether a size of Trireme is a whole number.
bool is_whole(const std::string& setting) {
  return setting == "model.rope_original_length";
}

void read_length(Reader& reader, const std::string& key) {
  const std::int64_t longest = module_size(reader, key);
  const std::int64_t length = reader.count("training.seq_len").value_or(2048);
  if (length > longest)
    reader.refuse("training.seq_len", fmt::format("is {}, but {} is {}, which torchtitan refuses",
                                                  length, key, longest));
  reader.set("model.max_positions", longest, key);
}

// Rotary positions of `dim` dimensions. Returns the factor of YaRN, or 1.
double read_rope(Reader& reader, const std::string& key, std::int64_t dim) {
  read_module(reader, key);
  expect_size(reader, key + ".dim", dim);
  read_length(reader, key + ".max_seq_len");
  reader.set("model.rope_base", reader.number(key + ".theta").value_or(10000), key + ".theta");
  const std::string name = reader.text(key + ".scaling").value_or("none");
  const double factor = reader.number(key + ".rope_factor").value_or(1);
  if (name != "none" && name != "llama" && name != "yarn")
    reader.refuse(key + ".scaling", fmt::format("is '{}', not none, llama or yarn", name));
  const bool scaled = name == "llama" || (name == "yarn" && factor > 1);
  reader.set_text("model.rope_scaling",
                  !scaled           ? "none"
                  : name == "llama" ? "llama3"
                                    : "yarn",
                  key + ".scaling");
  for (const ScalingKeys& row : scalings) {
    for (const auto& [last, setting] : row.settings) {
      const std::string whole = fmt::format("{}.{}", key, last);
      const auto value = reader.number(whole);
      if (!scaled || row.scaling != name || !value)
        reader.pass(whole);
      else if (is_whole(setting))
        reader.set(setting, module_size(reader, whole), whole);
      else
        reader.set(setting, *value, whole);
    }
  }
  const std::string truncate = key + ".truncate";
  if (!scaled || name != "yarn") {
    reader.pass(truncate);
    return 1;
  }
  reader.set("model.rope_truncate", reader.flag(truncate).value_or(true), truncate);
  return factor;
}

// The window of variable-length attention: the number of earlier positions, or -1.
std::int64_t read_inner(Reader& reader, const std::string& key) {
  read_module(reader, key);
  reader.pass(key + ".block_size");
  reader.consume_section(key + ".kernel_options");
  const std::string window = key + ".window_size";
  reader.consume(window);
  if (!reader.is_there(window)) return 0;
  const auto before = reader.count(window + ".0"), after = reader.count(window + ".1");
  if (!before || after != 0 || reader.is_there(window + ".2"))
    reader.refuse(window, fmt::format("is {}, not [positions, 0]", reader.shown(window)));
  reader.result().passed.push_back(window);
  return *before < 0 ? 0 : *before + 1;
}

std::int64_t read_window(Reader& reader, const std::string& key) {
  const std::string own = key + ".sliding_window_size";
  const std::int64_t inner = read_inner(reader, key + ".inner_attention");
  const auto window = reader.count(own);
  if (!window) return inner;
  if (*window < 1 || (inner > 0 && inner != *window))
    reader.refuse(own, fmt::format("is {}, and {}.inner_attention.window_size is {}", *window, key,
                                   reader.shown(key + ".inner_attention.window_size")));
  return *window;
}

struct Heads {
  std::int64_t queries, keys, width;
};

Heads read_heads(Reader& reader, const std::string& key, std::int64_t dim) {
  Heads h{};
  h.queries = module_size(reader, key + ".n_heads");
  h.keys = reader.has(key + ".n_kv_heads") ? module_size(reader, key + ".n_kv_heads") : h.queries;
  reader.consume(key + ".n_kv_heads");
  reader.consume(key + ".head_dim");
  h.width =
      reader.has(key + ".head_dim") ? module_size(reader, key + ".head_dim") : dim / h.queries;
  reader.set("model.num_heads", h.queries, key + ".n_heads");
  reader.set("model.num_kv_heads", h.keys, key + ".n_kv_heads");
  reader.set("model.head_dim", h.width, key + ".head_dim");
  return h;
}

// One projection of queries, keys and values, or three.
bool read_projection(Reader& reader, const std::string& key, std::int64_t dim, const Heads& h) {
  read_module(reader, key);
  expect_size(reader, key + ".head_dim", h.width);
  if (reader.has(key + ".wqkv")) {
    expect_size(reader, key + ".n_heads", h.queries);
    expect_size(reader, key + ".n_kv_heads", h.keys);
    return read_linear(reader, key + ".wqkv", dim, (h.queries + 2 * h.keys) * h.width);
  }
  const bool bias = read_linear(reader, key + ".wq", dim, h.queries * h.width);
  if (read_linear(reader, key + ".wkv", dim, h.keys * h.width) != bias)
    reader.lose(key + ".wkv.bias", "differs from that of wq: model.qkv_bias is for all three");
  return bias;
}

// The scores of gpt-oss grow with YaRN's factor as those of transformers do; other models rotate
// only.
void read_grouped(Reader& reader, const std::string& key, std::int64_t dim) {
  const Heads h = read_heads(reader, key, dim);
  reader.set("model.qkv_bias", read_projection(reader, key + ".qkv_linear", dim, h),
             key + ".qkv_linear");
  reader.set("model.bias", read_linear(reader, key + ".wo", h.queries * h.width, dim),
             key + ".wo.bias");
  const bool normed = has_module(reader, key + ".qk_norm");
  reader.set("model.qk_norm", normed, key + ".qk_norm");
  if (normed) read_norm(reader, key + ".qk_norm", h.width);
  const double factor = read_rope(reader, key + ".rope", h.width);
  if (factor > 1 && !is_gpt_oss(reader))
    reader.set("model.rope_attention_factor", 1.0, key + ".rope.scaling");
}

// YaRN's factor scales all scores, not the rotated parts.
void read_scale(Reader& reader, const std::string& key, std::int64_t width, double factor) {
  const double scale = reader.number(key + ".mscale").value_or(1);
  if (factor <= 1) return;
  const double growth = 0.1 * scale * std::log(factor) + 1;
  reader.set("model.rope_attention_factor", 1.0, key + ".rope.scaling");
  reader.set("model.attention_scale", growth * growth / std::sqrt(static_cast<double>(width)),
             key + ".mscale");
}

bool read_latent_queries(Reader& reader, const std::string& key, std::int64_t dim,
                         std::int64_t out) {
  const std::string rank_key = key + ".q_lora_rank";
  const std::int64_t rank = reader.count(rank_key).value_or(0);
  reader.set("model.q_lora_rank", rank, rank_key);
  for (const char* weight : {".wq", ".wq_a", ".wq_b"}) has_module(reader, key + weight);
  if (rank == 0) {
    reader.consume_section(key + ".q_norm");  // printed, but not built
    return read_linear(reader, key + ".wq", dim, out);
  }
  read_norm(reader, key + ".q_norm", rank, "model.latent_norm_eps");
  const bool first = read_linear(reader, key + ".wq_a", dim, rank);
  return read_linear(reader, key + ".wq_b", rank, out) || first;
}

void read_latent(Reader& reader, const std::string& key, std::int64_t dim) {
  const auto size = [&](const char* last, const char* setting) {
    const std::int64_t value = module_size(reader, key + last);
    reader.set(setting, value, key + last);
    return value;
  };
  const std::int64_t heads = size(".n_heads", "model.num_heads");
  const std::int64_t rank = size(".kv_lora_rank", "model.kv_lora_rank");
  const std::int64_t fixed = size(".qk_nope_head_dim", "model.qk_nope_head_dim");
  const std::int64_t turned = size(".qk_rope_head_dim", "model.qk_rope_head_dim");
  const std::int64_t value = size(".v_head_dim", "model.v_head_dim");
  bool bias = read_latent_queries(reader, key, dim, heads * (fixed + turned));
  bias |= read_linear(reader, key + ".wkv_a", dim, rank + turned);
  read_norm(reader, key + ".kv_norm", rank, "model.latent_norm_eps");
  bias |= read_linear(reader, key + ".wkv_b", rank, heads * (fixed + value));
  bias |= read_linear(reader, key + ".wo", heads * value, dim);
  if (bias) reader.lose(key, "has biases: those of latent attention are not supported");
  read_scale(reader, key, fixed + turned, read_rope(reader, key + ".rope", turned));
}

}  // namespace

std::int64_t read_torchtitan_attention(Reader& reader, const std::string& key, std::int64_t dim) {
  read_module(reader, key);
  expect_size(reader, key + ".dim", dim);
  if (reader.has(key + ".wkv_a"))
    read_latent(reader, key, dim);
  else
    read_grouped(reader, key, dim);
  return read_window(reader, key);
}

}  // namespace trireme::settings
