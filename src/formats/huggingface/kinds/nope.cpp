// Llama relatives with layers without position encoding (NoPE): SmolLM3, and EXAONE 4, whose other
// layers have sliding windows.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/huggingface/kinds/llama.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kSmolLm3{
    .kv_heads = 4, .positions = 32768, .rope_base = 2e6, .tie_embeddings = true};
constexpr LlamaDefaults kExaone4{.kv_heads = 32, .norm_eps = 1e-5};

// Without layer_types, a window applies to the layers without RoPE.
ModelConfig read_smollm3(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kSmolLm3);
  read_biases(json, m);
  m.no_rope_layers = layers_without_rope(json, m);
  read_switched_windows(json, m, m.no_rope_layers);
  return m;
}

HuggingFaceJson write_smollm3(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  write_biases(json, m);
  write_layers_with_rope(json, m);
  json["use_sliding_window"] = m.attention_window > 0;
  write_window(json, m);
  write_layer_types(json, m);
  return json;
}

// Unless sliding_window is null, layers without a window have no RoPE.
ModelConfig read_exaone4(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kExaone4);
  m.norm_placement = NormPlacement::output;
  m.qk_norm = true;
  if (json.is_null("sliding_window")) {
    json.pass_over({"sliding_window_pattern"});
    if (json.has("layer_types") && !read_layer_types(json, m).empty())
      json.refuse("layer_types", "layers with sliding-window attention require sliding_window");
    return m;
  }
  read_rounds_of_windows(json, m, 4, "sliding_window_pattern");
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
    if (!m.window_in_layer(layer)) m.no_rope_layers.push_back(layer);
  return m;
}

HuggingFaceJson write_exaone4(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  write_window(json, m);
  if (m.attention_window == 0 && !m.no_rope_layers.empty())
    json["sliding_window"] = 4096;  // for no layer; removes RoPE from layers without a window
  write_layer_types(json, m);
  return json;
}

constexpr HuggingFaceInertKey smollm3_keys[] = {
    {"max_window_layers"},
};

}  // namespace

std::vector<std::int64_t> layers_without_rope(const HuggingFaceReader& json, const ModelConfig& m) {
  const char *const key = "no_rope_layers", *const interval = "no_rope_layer_interval";
  std::vector<std::int64_t> without;
  if (!json.has(key) || json[key] == HuggingFaceReader::Json::array()) {
    const std::int64_t round = json.size(interval, "num_layers", 4);
    for (std::int64_t layer = round - 1; layer < m.num_layers; layer += round)
      without.push_back(layer);
    return without;
  }
  json.pass_over({interval});
  const auto& flags = json[key];
  const auto is_flag = [](const auto& flag) { return flag == 0 || flag == 1; };
  if (!flags.is_array() || static_cast<std::int64_t>(flags.size()) < m.num_layers ||
      !std::ranges::all_of(flags, is_flag))
    json.refuse(key,
                "it must have a 1, or a 0 for a layer without positions, for each layer of "
                "num_hidden_layers");
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
    if (flags[static_cast<std::size_t>(layer)] == 0) without.push_back(layer);
  return without;
}

void write_layers_with_rope(HuggingFaceJson& json, const ModelConfig& m) {
  HuggingFaceJson flags = HuggingFaceJson::array();
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
    flags.push_back(m.rope_in_layer(layer) ? 1 : 0);
  json["no_rope_layers"] = flags;
}

const HuggingFaceKind smollm3_kind{"SmolLM3ForCausalLM", "smollm3",     &llama_names,
                                   read_smollm3,         write_smollm3, smollm3_keys};
const HuggingFaceKind exaone4_kind{"Exaone4ForCausalLM", "exaone4",     &llama_names,
                                   read_exaone4,         write_exaone4, mistral_keys};

}  // namespace trireme
