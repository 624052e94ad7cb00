// Sliding windows: in all layers, in those named by layer_types, or by Qwen's keys.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/huggingface/kinds/llama.h"

namespace trireme {
namespace {

// Layers with a window according to layer_types; requires the switch to be on if there are any.
std::vector<std::int64_t> read_switched_types(const HuggingFaceReader& json, const ModelConfig& m,
                                              bool on) {
  std::vector<std::int64_t> with = read_layer_types(json, m);
  if (!with.empty() && !on)
    json.refuse(
        "layer_types",
        "layers with sliding-window attention require use_sliding_window and sliding_window");
  return with;
}

// Layers with the window: those named by layer_types, or without it those for which `is_with`,
// given the layer and max_window_layers, returns true.
template <class With>
void read_windows(const HuggingFaceReader& json, ModelConfig& m, std::int64_t otherwise,
                  const With& is_with) {
  const bool on = json.flag("use_sliding_window", false) && !json.is_null("sliding_window");
  std::vector<std::int64_t> with;
  if (json.has("layer_types")) {
    json.pass_over({"max_window_layers"});
    with = read_switched_types(json, m, on);
  } else if (on) {
    const bool zero = json.has("max_window_layers") && json["max_window_layers"] == 0;
    const std::int64_t bound = zero ? 0 : json.size("max_window_layers", "num_layers", otherwise);
    for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
      if (is_with(layer, bound)) with.push_back(layer);
  }
  if (with.empty()) return json.pass_over({"sliding_window", "max_window_layers"});
  give_window(json, m, std::move(with));
}

}  // namespace

std::vector<std::int64_t> read_layer_types(const HuggingFaceReader& json, const ModelConfig& m) {
  const auto& types = json["layer_types"];
  const auto known = [](const auto& type) {
    return type == "sliding_attention" || type == "full_attention";
  };
  if (!types.is_array() || static_cast<std::int64_t>(types.size()) != m.num_layers ||
      !std::ranges::all_of(types, known))
    json.refuse(
        "layer_types",
        "it must name full_attention or sliding_attention for each layer of num_hidden_layers");
  std::vector<std::int64_t> with;
  for (std::size_t layer = 0; layer < types.size(); ++layer)
    if (types[layer] == "sliding_attention") with.push_back(static_cast<std::int64_t>(layer));
  return with;
}

void read_rounds_of_windows(const HuggingFaceReader& json, ModelConfig& m, std::int64_t round,
                            const char* key) {
  std::vector<std::int64_t> with;
  if (json.has("layer_types")) {
    if (key) json.pass_over({key});
    with = read_layer_types(json, m);
  } else {
    if (key) round = json.size(key, "num_layers", round);
    for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
      if ((layer + 1) % round != 0) with.push_back(layer);
  }
  if (with.empty()) return json.pass_over({"sliding_window"});
  give_window(json, m, std::move(with));
}

void give_window(const HuggingFaceReader& json, ModelConfig& m, std::vector<std::int64_t> with) {
  if (json.is_null("sliding_window"))
    json.refuse("sliding_window", "layers with sliding-window attention require it");
  m.attention_window = 4096;
  read_window(json, m);
  if (static_cast<std::int64_t>(with.size()) < m.num_layers) m.window_layers = std::move(with);
}

void read_switched_windows(const HuggingFaceReader& json, ModelConfig& m,
                           const std::vector<std::int64_t>& otherwise) {
  const bool on = json.flag("use_sliding_window", false) && json.has("sliding_window");
  std::vector<std::int64_t> with;
  if (json.has("layer_types"))
    with = read_switched_types(json, m, on);
  else if (on)
    with = otherwise;
  if (with.empty()) return json.pass_over({"sliding_window"});
  give_window(json, m, std::move(with));
}

void read_later_windows(const HuggingFaceReader& json, ModelConfig& m, std::int64_t first) {
  std::vector<std::int64_t> with;
  if (json.has("layer_types")) {
    json.pass_over({"max_window_layers"});
    with = read_layer_types(json, m);
  } else if (!json.is_null("sliding_window")) {
    first = json.size("max_window_layers", "num_layers", first);
    for (std::int64_t layer = first; layer < m.num_layers; ++layer) with.push_back(layer);
  }
  if (with.empty()) return json.pass_over({"sliding_window", "max_window_layers"});
  give_window(json, m, std::move(with));
}

void read_window(const HuggingFaceReader& json, ModelConfig& m) {
  m.attention_window = json.is_null("sliding_window")
                           ? 0
                           : json.size("sliding_window", "attention_window", m.attention_window);
}

void refuse_window(const HuggingFaceReader& json) {
  json.must_be_absent("sliding_window",
                      "this kind of model has no sliding-window attention, so it must be null");
}

void read_qwen_window(const HuggingFaceReader& json, ModelConfig& m) {
  read_windows(json, m, 28, [](std::int64_t layer, std::int64_t first) { return layer >= first; });
}

// Every second layer before max_window_layers.
void read_qwen2_moe_window(const HuggingFaceReader& json, ModelConfig& m) {
  read_windows(json, m, 28,
               [](std::int64_t layer, std::int64_t end) { return layer < end && layer % 2 == 0; });
}

void write_window(HuggingFaceJson& json, const ModelConfig& m) {
  json["sliding_window"] =
      m.attention_window > 0 ? HuggingFaceJson(m.attention_window) : HuggingFaceJson(nullptr);
}

void write_layer_types(HuggingFaceJson& json, const ModelConfig& m) {
  HuggingFaceJson types = HuggingFaceJson::array();
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
    types.push_back(m.window_in_layer(layer) ? "sliding_attention" : "full_attention");
  json["layer_types"] = types;
}

void write_qwen_window(HuggingFaceJson& json, const ModelConfig& m) {
  json["use_sliding_window"] = m.attention_window > 0;
  if (m.attention_window == 0) return;
  write_window(json, m);
  std::int64_t first = 0;
  while (!m.window_in_layer(first)) ++first;
  json["max_window_layers"] = first;
  const auto with = static_cast<std::int64_t>(m.window_layers.size());
  if (with == 0 || first + with == m.num_layers) return;
  write_layer_types(json, m);
}

}  // namespace trireme
