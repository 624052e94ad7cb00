// The model of a configuration of Megatron-Bridge: what Megatron-LM's flags say in other words.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "importers/settings/bridge.h"

namespace trireme::settings {
namespace {

// Classes that build Megatron-Core's GPT from their fields alone; those of one size add it:
// "Llama2ModelProvider7B".
constexpr std::array model_classes{
    "GPTModelProvider",        "MLAModelProvider",        "LlamaModelProvider",
    "Llama2ModelProvider",     "Llama3ModelProvider",     "Llama31ModelProvider",
    "Llama32ModelProvider",    "CodeLlamaModelProvider",  "Qwen2ModelProvider",
    "Qwen25ModelProvider",     "Qwen3ModelProvider",      "Qwen3MoEModelProvider",
    "DeepSeekModelProvider",   "DeepSeekV2ModelProvider", "DeepSeekV2LiteModelProvider",
    "DeepSeekV3ModelProvider", "MoonlightModelProvider",  "GPTOSSProvider",
    "MistralModelProvider",    "GLMMoEModelProvider",     "GLM45ModelProvider",
    "GLM45AirModelProvider",   "NemotronModelProvider",   "Nemotron3ModelProvider",
    "Nemotron4ModelProvider"};

// Functions that build equal layers of Megatron-Core's, and the one that reads everything.
constexpr std::array equal_layers{
    "megatron.bridge.models.gpt_provider.default_layer_spec",
    "megatron.bridge.models.gpt_provider.local_layer_spec",
    "megatron.bridge.models.gpt_provider.transformer_engine_layer_spec"};
constexpr const char* all_layers =
    "megatron.core.models.gpt.gpt_layer_specs.get_gpt_decoder_block_spec";

// The name of a function or class: "torch.nn.functional.silu".
std::string target_of(Reader& reader, const std::string& key) {
  const std::string target = reader.text(key + "._target_").value_or("");
  reader.consume_section(key);
  return target;
}

std::string last_name(const std::string& target) {
  return target.substr(target.rfind('.') + 1);
}

// A number that another rule reads.
double peek(const Reader& reader, const std::string& key, double otherwise) {
  const Json* json = reader.json_at(key);
  return json && json->is_number() ? json->get<double>() : otherwise;
}

void read_class(Reader& reader) {
  const std::string target = reader.text("model._target_").value_or("");
  const std::string name = last_name(target);
  const bool known = std::ranges::any_of(model_classes, [&](const std::string& beginning) {
    const std::size_t end = beginning.size();
    return name.starts_with(beginning) && (name.size() == end || std::isdigit(name[end]) != 0);
  });
  if (!known)
    reader.lose("model._target_",
                fmt::format("is '{}': models of this class have more than their fields say; give "
                            "[model] yourself",
                            target));
}

// Whether every layer has experts: 1, or a list of ones.
bool in_every_layer(const Reader& reader, const std::string& key) {
  const Json* json = reader.json_at(key);
  if (!json || json->is_null() || !json->is_array()) return !json || reader.says(key, "1|null");
  return std::ranges::all_of(*json, [](const Json& one) { return one == 1; });
}

// What the functions of equal layers do not read: they would build a model without it.
void read_layers(Reader& reader) {
  const std::string key = "model.transformer_layer_spec";
  const std::string function = reader.has(key) ? target_of(reader, key) : equal_layers[0];
  const std::string whole = "model.use_transformer_engine_full_layer_spec";
  reader.consume(key);
  reader.pass(whole);
  if (function == all_layers) return;
  if (std::ranges::find(equal_layers, function) == equal_layers.end())
    return reader.lose(key, fmt::format("is '{}', which builds layers of its own", function));
  const std::string builds = fmt::format("has no effect with {}, ", last_name(function));
  const std::string frequency = "model.moe_layer_freq", latent = "model.multi_latent_attention";
  if (reader.has("model.num_moe_experts") && !in_every_layer(reader, frequency))
    reader.lose(frequency, builds + "which puts experts into every layer");
  if (reader.flag(latent).value_or(false))
    reader.lose(latent, builds + "which builds usual attention");
  const bool only_default = function == equal_layers[0];
  if (only_default && reader.flag(whole).value_or(false))
    reader.lose(whole,
                "is true: Transformer Engine's whole layer ignores the norm, the "
                "activation, the biases and the groups of queries that the file gives");
  reader.pass(whole);
}

void read_activation(Reader& reader, BridgeFlags& flags) {
  const std::string key = "model.activation_func";
  const std::string function = target_of(reader, key), name = last_name(function);
  const bool gated = reader.flag("model.gated_linear_unit").value_or(false);
  const std::string fusion = "model.bias_activation_fusion";
  const bool fused = reader.flag(fusion).value_or(false);
  if (name != "gelu") reader.pass(fusion);
  if (!reader.has("model.ffn_hidden_size"))
    reader.refuse("model.ffn_hidden_size", "is null, but Megatron-Bridge saves a number");
  if (name == "silu" && gated) {
    flags.turn_on("--swiglu", key);
  } else if (name == "quick_gelu" && gated) {
    flags.turn_on("--quick-geglu", key);
  } else if (name == "squared_relu" && !gated) {
    flags.turn_on("--squared-relu", key);
  } else if (name == "gelu" && !gated) {
    if (!fused) flags.turn_on("--no-bias-gelu-fusion", fusion);
  } else {
    reader.lose(key, fmt::format("is '{}' with gated_linear_unit = {}, which is not one of "
                                 "Megatron-LM's activations",
                                 function, gated));
  }
}

void read_heads(Reader& reader, BridgeFlags& flags) {
  const std::string key = "model.num_query_groups";
  const auto groups = reader.count(key), heads = reader.count("model.num_attention_heads");
  if (groups && groups != heads) {
    flags.turn_on("--group-query-attention", key);
    flags.give_value("--num-query-groups", key);
  }
  if (heads) flags.give_value("--num-attention-heads", "model.num_attention_heads");
}

// Megatron-Core's model has as many positions as its sequence.
void read_length(Reader& reader, BridgeFlags& flags) {
  const std::string key = "model.seq_length";
  const auto length = reader.count(key);
  if (!length) reader.refuse(key, "is null, but Megatron-Bridge saves a number");
  flags.give_value("--seq-length", key);
  flags.give_value("--max-position-embeddings", key);
  const auto sample = reader.count("dataset.sequence_length");
  if (sample && sample != length)
    reader.refuse("dataset.sequence_length",
                  fmt::format("is {}, and {} is {}", *sample, key, *length));
}

// A number of earlier positions, and of later ones.
void read_window(Reader& reader, BridgeFlags& flags) {
  const std::string key = "model.window_size";
  if (!reader.has(key)) return reader.consume(key);
  const auto before = reader.count(key + ".0"), after = reader.count(key + ".1");
  reader.consume(key);
  if (!before || !after)
    return reader.lose(key, fmt::format("is {}, not two numbers", reader.shown(key)));
  flags.give("--window-size", fmt::format("({},{})", *before, *after), key);
}

// YaRN of latent attention has keys of its own.
void read_latent(Reader& reader) {
  const Passed keys[] = {
      {"beta_fast", "32", "Megatron-LM's flags have no other value"},
      {"beta_slow", "1", "Megatron-LM's flags have no other value"},
      {"original_max_position_embeddings", "4096", "Megatron-LM's flags have no other value"}};
  reader.pass("model.", keys);
  if (reader.says("model.multi_latent_attention", "true")) return;
  for (const char* key : {"model.rotary_scaling_factor", "model.mscale", "model.mscale_all_dim"})
    reader.pass(key);
}

// A function that draws weights, if it is saved: the fields do not replace it. `std`: its standard
// deviation.
void read_draw(Reader& reader, const std::string& key, double std) {
  const double mean = peek(reader, key + ".mean", 0), own = peek(reader, key + ".std", std);
  if (!reader.has(key)) return reader.consume(key);
  const std::string function = target_of(reader, key);
  if (last_name(function) != "normal_")
    reader.lose(key, fmt::format("is '{}', not a normal distribution", function));
  else if (mean != 0 || std::abs(own - std) > 1e-6 * std)
    reader.lose(key, fmt::format("draws with a mean of {} and a standard deviation of {}, not the "
                                 "0 and {} that follow from init_method_std",
                                 mean, own, std));
  else
    reader.pass(key);
}

// Weights start from a normal distribution, whose deviation is a number of its own.
void read_start(Reader& reader) {
  const double all = reader.number("model.init_method_std").value_or(0.02);
  const auto embedding = reader.number("model.embedding_init_method_std");
  if (embedding && *embedding != all)
    reader.lose("model.embedding_init_method_std",
                fmt::format("is {}, and init_method_std is {}: the embedding has no standard "
                            "deviation of its own",
                            *embedding, all));
  const double layers = peek(reader, "model.num_layers", 1);
  read_draw(reader, "model.init_method", all);
  read_draw(reader, "model.embedding_init_method", embedding.value_or(all));
  read_draw(reader, "model.output_layer_init_method", all / std::sqrt(2 * layers));
}

}  // namespace

void read_bridge_model(Reader& reader, BridgeFlags& flags) {
  read_class(reader);
  read_layers(reader);
  read_activation(reader, flags);
  read_heads(reader, flags);
  read_length(reader, flags);
  read_window(reader, flags);
  read_latent(reader);
  read_start(reader);
  if (reader.has("model.init_method_std"))
    flags.give_value("--init-method-std", "model.init_method_std");
}

}  // namespace trireme::settings
