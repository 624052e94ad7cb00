// A table from arguments to flags, which translate() then reads, and the arguments that we write.
#include "megatron/arguments.h"

#include <fmt/ranges.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "config/families.h"
#include "config/fields.h"
#include "megatron/flags.h"
#include "megatron/translate.h"

namespace trireme::megatron {
namespace {

enum class Word : std::uint8_t {
  value,       // the flag with the argument's value
  when_true,   // the flag alone where the argument is True
  when_false,  // ... where it is False
};

struct Argument {
  const char *name, *flag;
  Word word = Word::value;
};

// Arguments that say what the model computes.
constexpr std::array<Argument, 44> arguments{{
    {"num_layers", "--num-layers"},
    {"hidden_size", "--hidden-size"},
    {"num_attention_heads", "--num-attention-heads"},
    {"max_position_embeddings", "--max-position-embeddings"},
    {"seq_length", "--seq-length"},
    {"ffn_hidden_size", "--ffn-hidden-size"},
    {"kv_channels", "--kv-channels"},
    {"group_query_attention", "--group-query-attention", Word::when_true},
    {"num_query_groups", "--num-query-groups"},
    {"position_embedding_type", "--position-embedding-type"},
    {"use_rotary_position_embeddings", "--use-rotary-position-embeddings", Word::when_true},
    {"add_position_embedding", "--no-position-embedding", Word::when_false},
    {"rotary_base", "--rotary-base"},
    {"rope_theta", "--rotary-base"},  // at Megatron-DeepSpeed
    {"rotary_percent", "--rotary-percent"},
    {"rotary_interleaved", "--rotary-interleaved", Word::when_true},
    {"rotary_seq_len_interpolation_factor", "--rotary-seq-len-interpolation-factor"},
    {"use_rope_scaling", "--use-rope-scaling", Word::when_true},
    {"rope_scaling_factor", "--rope-scaling-factor"},
    {"normalization", "--normalization"},
    {"norm_epsilon", "--norm-epsilon"},
    {"layernorm_epsilon", "--layernorm-epsilon"},
    {"apply_residual_connection_post_layernorm", "--apply-residual-connection-post-layernorm",
     Word::when_true},
    {"swiglu", "--swiglu", Word::when_true},
    {"squared_relu", "--squared-relu", Word::when_true},
    {"openai_gelu", "--openai-gelu", Word::when_true},
    {"bias_gelu_fusion", "--no-bias-gelu-fusion", Word::when_false},
    {"add_bias_linear", "--disable-bias-linear", Word::when_false},
    {"add_qkv_bias", "--add-qkv-bias", Word::when_true},
    {"qk_layernorm", "--qk-layernorm", Word::when_true},
    {"window_size", "--window-size"},
    {"window_attn_skip_freq", "--window-attn-skip-freq"},
    {"untie_embeddings_and_output_weights", "--untie-embeddings-and-output-weights",
     Word::when_true},
    {"make_vocab_size_divisible_by", "--make-vocab-size-divisible-by"},
    {"hidden_dropout", "--hidden-dropout"},
    {"attention_dropout", "--attention-dropout"},
    {"init_method_std", "--init-method-std"},
    {"embed_layernorm", "--embed-layernorm", Word::when_true},
    {"embedding_weights_in_fp32", "--embedding-weights-in-fp32", Word::when_true},
    {"multi_latent_attention", "--multi-latent-attention", Word::when_true},
    {"mtp_num_layers", "--mtp-num-layers"},
    {"bert_binary_head", "--bert-no-binary-head", Word::when_false},
    {"num_key_value_heads", "--num-key-value-heads"},
    {"spec", "--spec"},
}};

// What makes other numbers of the same tensors, and no flag of ours says. None and False are
// harmless everywhere; `plain` is where it is there.
struct Refused {
  const char *name, *why, *plain = "None";
};
constexpr std::array<Refused, 18> refused_arguments{{
    {"apply_layernorm_1p", "its norms are stored as their distance from 1"},
    {"layernorm_zero_centered_gamma", "its norms are stored as their distance from 1"},
    {"glu_activation", "its gate is the second half of the rows"},
    {"heterogeneous_layers_config_path", "its layers differ from each other"},
    {"quick_geglu", "its activation is another one"},
    {"activation_func_clamp_value", "its activation is clamped"},
    {"glu_linear_offset", "its gate has an offset", "0.0"},
    {"softmax_type", "its attention has another softmax", "vanilla"},
    {"softmax_scale", "its attention has a scale of its own"},
    {"qk_l2_norm", "its queries and keys are divided by their lengths"},
    {"no_rope_freq", "some of its layers have no positions"},
    {"attention_output_gate", "its attention has a gate"},
    {"experimental_attention_variant", "its attention is another one"},
    {"linear_attention_type", "its attention is another one"},
    {"mrope_section", "its positions have several parts"},
    {"use_mup", "its outputs are scaled by widths"},
    {"is_hybrid_model", "not all of its layers are attention"},
    {"hybrid_override_pattern", "not all of its layers are attention"},
}};

void refuse_argument(const std::string& where, const std::string& name, const std::string& value,
                     const std::string& why) {
  fail_input("'{}': its argument {} is {}: {}", where, name, value, why);
}

std::vector<std::string> flags_of(const std::string& where, const ArgumentLookup& argument) {
  for (const auto& [name, why, plain] : refused_arguments) {
    const std::string found = argument(name).value_or("None");
    if (found != "None" && found != "False" && found != plain)
      refuse_argument(where, name, found, why);
  }
  const std::string experts = argument("num_experts").value_or("1");
  if (experts != "1" && experts != "(1)")
    refuse_argument(where, "num_experts", experts, "models with experts are not read");
  for (const char* name :
       {"num_layers", "hidden_size", "num_attention_heads", "max_position_embeddings"}) {
    if (!argument(name)) fail_input("'{}': its arguments lack {}, a number", where, name);
  }
  std::vector<std::string> words;
  const bool has_newer_epsilon = argument("norm_epsilon").has_value();
  for (const auto& [name, flag, word] : arguments) {
    const auto value = argument(name);
    if (!value || (std::string_view(name) == "layernorm_epsilon" && has_newer_epsilon)) continue;
    if (word == Word::value) {
      words.emplace_back(fmt::format("{}={}", flag, *value));
    } else if (*value == (word == Word::when_true ? "True" : "False")) {
      words.emplace_back(flag);
    }
  }
  return words;
}

// Writing -----------------------------------------------------------------------------------------

TorchValue whole_or_real(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15)
    return {static_cast<std::int64_t>(value)};
  return {value};
}

TorchValue text_value(const char* text) {
  return {std::string(text)};
}

std::string theirs(const std::string& position) {
  return position == "rope" || position == "none" ? position : "learned_absolute";
}

// Megatron's name of a kind of tokenizer, or None.
TorchValue tokenizer_type(const std::string& ours) {
  for (const auto& [name, kind] : choices(*find_flag("--tokenizer-type")))
    if (kind == ours) return {std::string(name)};
  return {};
}

bool is_bert(const ModelConfig& m) {
  return family_of(m).architecture == Architecture::encoder;
}

void add_positions(TorchDict& args, const ModelConfig& m) {
  args.push_back({"position_embedding_type", {theirs(m.position)}});
  args.push_back({"add_position_embedding", {true}});
  args.push_back({"rotary_base", whole_or_real(m.rope_base)});
  args.push_back({"rotary_percent", {m.rope_percent}});
  args.push_back({"rotary_interleaved", {false}});
  const bool linear = m.rope_scaling == "linear", scaled = m.rope_scaling == "llama3";
  args.push_back({"rotary_seq_len_interpolation_factor",
                  linear ? whole_or_real(m.rope_scaling_factor) : TorchValue{}});
  args.push_back({"use_rope_scaling", {scaled}});
  args.push_back({"rope_scaling_factor", {scaled ? m.rope_scaling_factor : 8.0}});
}

void add_layers(TorchDict& args, const ModelConfig& m) {
  const bool grouped = m.num_kv_heads != m.num_heads;
  // Megatron fuses GELU with the bias, and computes it in its tanh form then.
  const bool is_tanh = m.activation == "gelu_tanh";
  const TorchDict layers{
      {"num_layers", {m.num_layers}},
      {"hidden_size", {m.hidden_size}},
      {"ffn_hidden_size", {m.ffn_hidden_size}},
      {"num_attention_heads", {m.num_heads}},
      {"kv_channels", {m.head_dim}},
      {"group_query_attention", {grouped}},
      {"num_query_groups", {grouped ? m.num_kv_heads : std::int64_t{1}}},
      {"seq_length", {m.seq_length}},
      {"max_position_embeddings", {m.max_positions}},
      {"normalization", text_value(m.norm == "rms_norm" ? "RMSNorm" : "LayerNorm")},
      {"norm_epsilon", {m.norm_eps}},
      {"layernorm_epsilon", {m.norm_eps}},
      {"apply_layernorm_1p", {false}},
      {"apply_residual_connection_post_layernorm", {false}},
      {"swiglu", {m.activation == "swiglu"}},
      {"squared_relu", {m.activation == "squared_relu"}},
      // The head of BERT reads the first of the two alone.
      {"openai_gelu", {is_tanh && (!m.bias || is_bert(m))}},
      {"bias_gelu_fusion", {is_tanh && m.bias && !is_bert(m)}},
      {"add_bias_linear", {m.bias}},
      {"add_qkv_bias", {m.qkv_bias && !m.bias}},
      {"qk_layernorm", {m.qk_norm}},
      {"hidden_dropout", {m.hidden_dropout}},
      {"attention_dropout", {m.attention_dropout}},
      {"init_method_std", {m.init_std}},
      {"num_experts", {}}};
  args.insert(args.end(), layers.begin(), layers.end());
  TorchValue window;
  if (m.attention_window > 0) window = {TorchTuple{{{m.attention_window - 1}, {std::int64_t{0}}}}};
  args.push_back({"window_size", std::move(window)});
}

TorchDict all_arguments(const Config& config, const MegatronLayout& layout) {
  const ModelConfig& m = config.model;
  TorchDict args;
  add_layers(args, m);
  add_positions(args, m);
  const TorchDict rest{
      {"untie_embeddings_and_output_weights", {!m.tie_embeddings}},
      {"make_vocab_size_divisible_by", {m.vocab_multiple}},
      {"padded_vocab_size", {megatron_vocabulary(m, layout.tp)}},
      {words_argument, {m.vocab_size}},
      {"tokenizer_type", tokenizer_type(config.data.tokenizer)},
      {"tensor_model_parallel_size", {std::int64_t{layout.tp}}},
      {"pipeline_model_parallel_size", {std::int64_t{layout.pp}}},
      {"virtual_pipeline_model_parallel_size", {}},
      {"use_legacy_models", {layout.kind == MegatronKind::legacy}},
      {"transformer_impl",
       text_value(layout.kind == MegatronKind::transformer_engine ? "transformer_engine"
                                                                  : "local")},
      {"consumed_train_samples", {std::int64_t{0}}},
      {"consumed_valid_samples", {std::int64_t{0}}}};
  args.insert(args.end(), rest.begin(), rest.end());
  if (is_bert(m)) args.push_back({"bert_binary_head", {m.order_head}});
  return args;
}

// As Python shows it, of the kinds of values above.
std::optional<std::string> shown(const TorchValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag ? "True" : "False";
  if (const auto* number = std::get_if<std::int64_t>(&value.value))
    return fmt::format("{}", *number);
  if (const auto* number = std::get_if<double>(&value.value)) return toml_number(*number);
  if (const auto* tuple = std::get_if<TorchTuple>(&value.value)) {
    std::vector<std::string> items;
    for (const TorchValue& item : tuple->items) items.push_back(shown(item).value_or("None"));
    return fmt::format("({})", fmt::join(items, ","));
  }
  return std::nullopt;
}

// A model without what other settings of it leave without effect.
ModelConfig essence(ModelConfig m) {
  const ModelConfig plain;
  m.preset = plain.preset;
  m.vocab_size = plain.vocab_size;
  if (m.position != "rope") {
    m.rope_base = plain.rope_base;
    m.rope_percent = plain.rope_percent;
    m.rope_scaling = plain.rope_scaling;
  }
  if (m.rope_scaling == "none") m.rope_scaling_factor = plain.rope_scaling_factor;
  if (m.rope_scaling != "llama3") {
    m.rope_low_freq_factor = plain.rope_low_freq_factor;
    m.rope_high_freq_factor = plain.rope_high_freq_factor;
  }
  if (m.rope_scaling != "llama3" && m.rope_scaling != "yarn")
    m.rope_original_length = plain.rope_original_length;
  if (!is_bert(m)) m.order_head = plain.order_head;
  if (!m.qk_norm) m.qk_norm_over = plain.qk_norm_over;
  if (m.moe.num_experts == 0) m.moe = plain.moe;
  m.family = plain.family;  // only a set of defaults
  return m;
}

void require_same(const ModelConfig& wanted, const ModelConfig& said) {
  Config ours, theirs;
  ours.model = essence(wanted);
  theirs.model = essence(said);
  for (const Field& field : all_fields()) {
    if (field.section != "model" && field.section != "moe") continue;
    const std::string value = toml_value(field.slot(ours));
    if (value == toml_value(field.slot(theirs))) continue;
    fail_input(
        "cannot write a checkpoint of Megatron-LM: its models have no counterpart for {} = {}",
        field.key(), value);
  }
}

[[noreturn]] void refuse_key(const std::string& key, const std::string& why) {
  fail_input("cannot write a checkpoint of Megatron-LM: it does not compute {}: {}", key, why);
}

// What arguments say and Megatron's models leave unread.
void require_computed(const ModelConfig& m, const MegatronLayout& layout) {
  const bool legacy = layout.kind == MegatronKind::legacy, rotates = m.position == "rope";
  const bool is_tanh = m.activation == "gelu_tanh";
  const std::string activation = fmt::format("model.activation = \"{}\"", m.activation);
  if (!legacy && is_tanh && !m.bias)
    refuse_key(activation,
               "without model.bias its core has gelu_erf (--megatron-names legacy has it)");
  if (is_bert(m) && rotates) refuse_key("model.position = \"rope\"", "its BERT has none such");
  if (is_bert(m) && m.activation != "gelu_erf" && !(legacy && is_tanh))
    refuse_key(activation, "the head of its BERT has gelu_erf");
  if (!rotates) return;
  const std::string factor = fmt::format("model.rope_scaling_factor = {}", m.rope_scaling_factor);
  if (m.rope_scaling == "llama3" && m.rope_scaling_factor != 8)
    refuse_key(factor, "its models are given 8 whatever the flag says");
  if (m.rope_scaling == "linear" && !legacy)
    refuse_key("model.rope_scaling = \"linear\"", "its core is not given the factor");
  if (!legacy) return;
  if (m.rope_base != 10000)
    refuse_key(fmt::format("model.rope_base = {}", m.rope_base), "its legacy models have 10000");
  if (m.rope_scaling == "llama3")
    refuse_key("model.rope_scaling = \"llama3\"", "its legacy models have none such");
}

void require_window(const ModelConfig& m, const MegatronLayout& layout) {
  if (layout.kind == MegatronKind::legacy && m.attention_window > 0)
    refuse_key(fmt::format("model.attention_window = {}", m.attention_window),
               "its legacy models have none");
}

}  // namespace

ModelConfig model_of_arguments(const std::string& where, bool bert,
                               const ArgumentLookup& argument) {
  const Translation translation =
      translate(flags_of(where, argument),
                {.program = bert ? Program::bert : Program::gpt, .lenient = true, .read_file = {}});
  for (const Note& lost : translation.lost) {
    // Flags of the run, which do not matter here, are missing from the words.
    if (!lost.flag.starts_with("--")) continue;
    fail_input("'{}': its arguments amount to {}, which cannot be read: {}", where, lost.flag,
               lost.text);
  }
  return to_config(translation).model;
}

TorchDict arguments_of(const Config& config, const MegatronLayout& layout) {
  TorchDict args = all_arguments(config, layout);
  const auto look_up = [&](std::string_view name) -> std::optional<std::string> {
    for (const auto& [key, value] : args)
      if (key == name) return shown(value);
    return std::nullopt;
  };
  ModelConfig said = model_of_arguments("the checkpoint to write", is_bert(config.model), look_up);
  said.vocab_size = config.model.vocab_size;
  resolve(said);
  require_same(config.model, said);
  require_computed(config.model, layout);
  require_window(config.model, layout);
  return args;
}

}  // namespace trireme::megatron
