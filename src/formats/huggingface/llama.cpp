// One function per relative of Llama without experts, and what all of them share.
#include "formats/huggingface/llama.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/huggingface/activations.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kMistral{.kv_heads = 8, .positions = 131072};
constexpr LlamaDefaults kQwen2{.kv_heads = 32, .positions = 32768};
constexpr LlamaDefaults kQwen3{.kv_heads = 32, .head_dim = 128, .positions = 32768};
constexpr LlamaDefaults kOlmo2{.norm_eps = 1e-5};
constexpr LlamaDefaults kGemma{.kv_heads = 16,
                               .head_dim = 256,
                               .positions = 8192,
                               .activation = "gelu_pytorch_tanh",
                               .tie_embeddings = true};
constexpr LlamaDefaults kGemma2{.kv_heads = 4,
                                .head_dim = 256,
                                .positions = 8192,
                                .activation = "gelu_pytorch_tanh",
                                .tie_embeddings = true};

void require_activation(const HuggingFaceReader& json, const char* key, const char* only) {
  if (activation_named(json.text(key, only)) != activation_named(only))
    json.refuse(key, fmt::format("only {} is supported", only));
}

void refuse_two_directions(const HuggingFaceReader& json) {
  const char* const key = "use_bidirectional_attention";
  if (json.has(key)) json.must_be(key, false);
}

ModelConfig read_llama(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, {});
  m.bias = json.flag("mlp_bias", false);
  m.qkv_bias = json.flag("attention_bias", false);
  if (m.bias != m.qkv_bias) {
    json.refuse(json.has("mlp_bias") ? "mlp_bias" : "attention_bias",
                "attention_bias and mlp_bias must be the same");
  }
  refuse_window(json);
  return m;
}

// transformers assumes a window of 4096 where the key is absent, and none where it is null.
ModelConfig read_mistral(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kMistral);
  m.attention_window = 4096;
  read_window(json, m);
  return m;
}

ModelConfig read_qwen2(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kQwen2);
  read_qwen_window(json, m);
  m.qkv_bias = true;
  return m;
}

ModelConfig read_qwen3(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kQwen3);
  read_qwen_window(json, m);
  json.must_be("attention_bias", false);
  m.qk_norm = true;
  return m;
}

ModelConfig read_olmo2(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kOlmo2);
  json.must_be("attention_bias", false);
  refuse_window(json);
  m.norm_placement = NormPlacement::output;
  m.qk_norm = true;
  m.qk_norm_over = NormSpan::all_heads;
  return m;
}

// Its first files say gelu and mean what its code computes, gelu_pytorch_tanh; a
// hidden_activation decided in some versions of transformers.
ModelConfig read_gemma(const HuggingFaceReader& json) {
  LlamaDefaults defaults = kGemma;
  const bool gelu = json.text("hidden_act", kGemma.activation) == "gelu";
  if (gelu) defaults.activation = "gelu";
  ModelConfig m = read_llama_like(json, defaults);
  if (json.has("hidden_activation"))
    require_activation(json, "hidden_activation", kGemma.activation);
  json.must_be("attention_bias", false);
  refuse_two_directions(json);
  refuse_window(json);
  m.activation = MlpActivation::geglu;
  m.zero_centred_norms = m.scale_embedding = true;
  return m;
}

// The layers that layer_types gives a window.
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

// The window of the layers `with`, which are some.
void give_window(const HuggingFaceReader& json, ModelConfig& m, std::vector<std::int64_t> with) {
  if (json.is_null("sliding_window")) json.refuse("sliding_window", "layers with a window need it");
  m.attention_window = 4096;
  read_window(json, m);
  if (static_cast<std::int64_t>(with.size()) < m.num_layers) m.window_layers = std::move(with);
}

// Every second layer from the first on has the window where no layer_types say otherwise.
void read_gemma_window(const HuggingFaceReader& json, ModelConfig& m) {
  std::vector<std::int64_t> with;
  if (json.has("layer_types")) {
    with = read_layer_types(json, m);
  } else {
    for (std::int64_t layer = 0; layer < m.num_layers; layer += 2) with.push_back(layer);
  }
  if (with.empty()) return json.pass_over({"sliding_window", "sliding_window_size"});
  give_window(json, m, std::move(with));
  json.must_be("sliding_window_size", m.attention_window);  // of its first files
}

// What scores are divided by the root of: a fraction too, though newer versions of transformers
// know whole numbers alone.
double score_width(const HuggingFaceReader& json) {
  const char* const key = "query_pre_attn_scalar";
  if (!json.has(key)) return 256;
  const double width = json[key].is_number() ? json[key].get<double>() : 0;
  if (width < 1) json.refuse(key, "it must be a number of at least 1");
  return width;
}

ModelConfig read_gemma2(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kGemma2);
  json.must_be("attention_bias", false);
  refuse_two_directions(json);
  require_activation(json, "hidden_activation", kGemma2.activation);
  read_gemma_window(json, m);
  m.activation = MlpActivation::geglu;
  m.norm_placement = NormPlacement::both;
  m.zero_centred_norms = m.scale_embedding = true;
  const auto cap = [&](const char* key, const char* ours, double absent) {
    return json.is_null(key) ? 0 : json.number(key, ours, absent);
  };
  m.attention_soft_cap = cap("attn_logit_softcapping", "attention_soft_cap", 50);
  m.logit_soft_cap = cap("final_logit_softcapping", "logit_soft_cap", 30);
  const double width = score_width(json);
  if (width != static_cast<double>(m.head_dim)) m.attention_scale = 1 / std::sqrt(width);
  return m;
}

// Which layers have the window: those that layer_types names, or without it those that `is_with`
// takes, which is told the layer and max_window_layers.
template <class With>
void read_windows(const HuggingFaceReader& json, ModelConfig& m, std::int64_t otherwise,
                  const With& is_with) {
  const bool on = json.flag("use_sliding_window", false) && !json.is_null("sliding_window");
  std::vector<std::int64_t> with;
  if (json.has("layer_types")) {
    json.pass_over({"max_window_layers"});
    with = read_layer_types(json, m);
    if (!with.empty() && !on)
      json.refuse("layer_types", "layers with a window need use_sliding_window and sliding_window");
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

ModelConfig read_llama_like(const HuggingFaceReader& json, const LlamaDefaults& defaults) {
  json.must_be("is_causal", true);
  ModelConfig m;
  m.family = "llama";
  m.num_layers = json.size("num_hidden_layers", "num_layers");
  m.hidden_size = json.size("hidden_size", "hidden_size");
  m.num_heads = json.size("num_attention_heads", "num_heads");
  const auto size = [&](const char* key, const char* ours, std::int64_t absent) {
    return json.is_null(key) ? 0 : json.size(key, ours, absent);
  };
  m.num_kv_heads = size("num_key_value_heads", "num_kv_heads", defaults.kv_heads);
  m.head_dim = size("head_dim", "head_dim", defaults.head_dim);
  m.ffn_hidden_size = json.size("intermediate_size", "ffn_hidden_size");
  m.max_positions = json.size("max_position_embeddings", "max_positions", defaults.positions);
  m.vocab_size = json.size("vocab_size", "vocab_size");
  require_activation(json, "hidden_act", defaults.activation);
  m.activation = MlpActivation::swiglu;
  m.norm_eps = json.number("rms_norm_eps", "norm_eps", defaults.norm_eps);
  if (defaults.reads_rope) read_rope(json, m, defaults.rope_base);
  m.bias = m.qkv_bias = false;
  m.tie_embeddings = json.flag("tie_word_embeddings", defaults.tie_embeddings);
  m.attention_dropout = json.is_null("attention_dropout")
                            ? 0
                            : json.number("attention_dropout", "attention_dropout", 0);
  m.init_std = json.number("initializer_range", "init_std", 0.02);
  return m;
}

void read_window(const HuggingFaceReader& json, ModelConfig& m) {
  m.attention_window = json.is_null("sliding_window")
                           ? 0
                           : json.size("sliding_window", "attention_window", m.attention_window);
}

void refuse_window(const HuggingFaceReader& json) {
  json.must_be_absent("sliding_window", "this kind of model has no windows, so it must be null");
}

void read_qwen_window(const HuggingFaceReader& json, ModelConfig& m) {
  read_windows(json, m, 28, [](std::int64_t layer, std::int64_t first) { return layer >= first; });
}

// Every second layer before max_window_layers.
void read_qwen2_moe_window(const HuggingFaceReader& json, ModelConfig& m) {
  read_windows(json, m, 28,
               [](std::int64_t layer, std::int64_t end) { return layer < end && layer % 2 == 0; });
}

std::span<const LlamaRelative> llama_relatives() {
  static constexpr std::array<LlamaRelative, 12> relatives{{
      {HuggingFaceKind::llama, read_llama},
      {HuggingFaceKind::mistral, read_mistral},
      {HuggingFaceKind::qwen2, read_qwen2},
      {HuggingFaceKind::qwen3, read_qwen3},
      {HuggingFaceKind::olmo2, read_olmo2},
      {HuggingFaceKind::gemma, read_gemma},
      {HuggingFaceKind::gemma2, read_gemma2},
      {HuggingFaceKind::mixtral, read_mixtral},
      {HuggingFaceKind::qwen2_moe, read_qwen2_moe},
      {HuggingFaceKind::qwen3_moe, read_qwen3_moe},
      {HuggingFaceKind::olmoe, read_olmoe},
      {HuggingFaceKind::deepseek_v3, read_deepseek},
  }};
  return relatives;
}

}  // namespace trireme
