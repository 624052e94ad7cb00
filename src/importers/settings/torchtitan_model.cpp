// Reads the model of a configuration that torchtitan printed since February 2026: the arguments of
// every module, layer by layer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "importers/settings/torchtitan.h"
#include "importers/settings/torchtitan_modules.h"

namespace trireme::settings {
namespace {

// Models whose modules are what their printed arguments say.
constexpr std::array known_models{"llama3", "qwen3", "deepseek_v3", "gpt_oss"};

// A module's arguments, without how its weights start and are sharded.
Json arithmetic_of(const Json& module) {
  if (!module.is_structured()) return module;
  Json result = module;
  if (result.is_object()) {
    result.erase("param_init");
    result.erase("sharding_config");
  }
  for (Json& part : result) part = arithmetic_of(part);
  return result;
}

std::vector<LayerGroup> groups_of(Reader& reader, const Json& layers) {
  std::vector<LayerGroup> groups;
  std::vector<Json> kinds;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string key = fmt::format("{}.layers.{}", printed_model, i);
    const Json kind = arithmetic_of(layers[i]);
    const auto place = static_cast<std::size_t>(std::ranges::find(kinds, kind) - kinds.begin());
    if (place == kinds.size()) {
      kinds.push_back(kind);
      groups.push_back({key, {}});
    } else {
      reader.consume_section(key);
    }
    groups[place].layers.push_back(static_cast<std::int64_t>(i));
  }
  return groups;
}

void append(std::vector<std::int64_t>& layers, const LayerGroup& group) {
  layers.insert(layers.end(), group.layers.begin(), group.layers.end());
  std::ranges::sort(layers);
}

void set_expert_layers(Reader& reader, const std::vector<std::int64_t>& layers, std::int64_t all) {
  if (layers.empty() || static_cast<std::int64_t>(layers.size()) == all) return;
  const std::string origin = printed_model + ".layers";
  std::vector<std::int64_t> last(layers.size());
  std::iota(last.begin(), last.end(), all - static_cast<std::int64_t>(layers.size()));
  if (layers == last) return reader.set("moe.first_layer", layers.front(), origin);
  reader.set("moe.layers", fmt::format("[{}]", fmt::join(layers, ", ")), origin);
}

// Reads one layer of every group; layers that contradict each other are refused by `Reader::set`.
void read_layers(Reader& reader, const Json& layers, std::int64_t dim) {
  std::vector<std::int64_t> windows, experts;
  for (const LayerGroup& group : groups_of(reader, layers)) {
    const std::string& key = group.key;
    read_module(reader, key);
    read_norm(reader, key + ".attention_norm", dim);
    read_norm(reader, key + ".ffn_norm", dim);
    if (!reader.has(key + ".attention")) reader.refuse(key + ".attention", "is missing");
    if (const auto window = read_torchtitan_attention(reader, key + ".attention", dim)) {
      reader.set("model.attention_window", window, key + ".attention");
      append(windows, group);
    }
    const bool dense = has_module(reader, key + ".feed_forward");
    if (has_module(reader, key + ".moe")) {
      read_torchtitan_experts(reader, key + ".moe", dim);
      append(experts, group);
    } else if (!dense) {
      reader.refuse(key, "has neither feed_forward nor moe");
    } else {
      read_torchtitan_mlp(reader, key + ".feed_forward", dim, "model.ffn_hidden_size");
    }
  }
  if (!windows.empty() && windows.size() < layers.size())
    reader.set("model.window_layers", fmt::format("[{}]", fmt::join(windows, ", ")),
               printed_model + ".layers");
  set_expert_layers(reader, experts, static_cast<std::int64_t>(layers.size()));
}

void read_ends(Reader& reader, std::int64_t dim) {
  const std::string& key = printed_model;
  const std::int64_t vocabulary = module_size(reader, key + ".vocab_size");
  reader.set("model.vocab_size", vocabulary, key + ".vocab_size");
  read_module(reader, key + ".tok_embeddings");
  expect_size(reader, key + ".tok_embeddings.num_embeddings", vocabulary);
  expect_size(reader, key + ".tok_embeddings.embedding_dim", dim);
  if (read_linear(reader, key + ".lm_head", dim, vocabulary))
    reader.lose(key + ".lm_head.bias", "is true: the output head of Trireme has no bias");
  read_norm(reader, key + ".norm", dim);
  reader.set("model.tie_embeddings", reader.flag(key + ".enable_weight_tying").value_or(false),
             key + ".enable_weight_tying");
}

void read_prediction(Reader& reader) {
  const std::string key = printed_model + ".mtp_layers";
  const Json* layers = reader.json_at(key);
  if (!layers || layers->empty()) return reader.pass(key);
  reader.consume(key);
  reader.lose(key,
              fmt::format("has {} for multi-token prediction, which get states before the norm in "
                          "torchtitan, and in Trireme (model.mtp_layers) those after it: train "
                          "without them, or set model.mtp_layers yourself",
                          layers->size() == 1 ? "a module" : "modules"));
}

}  // namespace

void read_torchtitan_model(Reader& reader) {
  const std::string name = reader.text("model_spec.name").value_or("");
  reader.pass("model_spec.flavor");
  reader.set("model.seq_length", reader.count("training.seq_len").value_or(2048),
             "training.seq_len");
  if (std::ranges::find(known_models, name) == known_models.end()) {
    reader.consume_section(printed_model);
    return reader.lose("model_spec.name",
                       fmt::format("is '{}': known are {}; give [model] yourself", name,
                                   fmt::join(known_models, ", ")));
  }
  const Json* layers = reader.json_at(printed_model + ".layers");
  if (!layers || !layers->is_array() || layers->empty() ||
      !std::ranges::all_of(*layers, [](const Json& layer) { return layer.is_object(); }))
    reader.refuse(printed_model + ".layers", "is not a list of layers");
  const auto count = static_cast<std::int64_t>(layers->size());
  read_module(reader, printed_model);
  reader.set_text("model.family", "llama", "model_spec.name");
  reader.set("model.num_layers", count, printed_model + ".layers");
  const std::int64_t dim = module_size(reader, printed_model + ".dim");
  reader.set("model.hidden_size", dim, printed_model + ".dim");
  if (name == "gpt_oss") reader.set("model.attention_sinks", true, "model_spec.name");
  read_layers(reader, *layers, dim);
  read_ends(reader, dim);
  read_prediction(reader);
  note_initial_weights(reader, count);
}

}  // namespace trireme::settings
