// Translates model keys that depend on several flags.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "base/counted.h"
#include "importers/megatron/draft.h"
#include "importers/megatron/pattern.h"

namespace trireme::megatron {
namespace {

std::string position(Draft& draft, std::string& origin) {
  if (draft.has("--use-rotary-position-embeddings")) {
    origin = "--use-rotary-position-embeddings";
    return "rope";
  }
  std::string type = draft.value("--position-embedding-type");
  if (!type.empty()) origin = "--position-embedding-type";
  if (type == "yarn") return "rope";
  if (type == "rope" || type == "alibi" || type == "none") return type;
  if (draft.has("--no-position-embedding")) {
    origin = "--no-position-embedding";
    return "none";
  }
  return "learned";
}

// Latent attention has its own RoPE; position embeddings would be added to it.
std::string latent_position(Draft& draft, std::string& origin) {
  if (is_yarn(draft))
    draft.complaints().add("--position-embedding-type",
                           "multi-head latent attention is scaled by --rope-type yarn: use rope");
  const std::string added = position(draft, origin);
  const std::string flag = origin == kDefault ? kLatent : origin;
  if (added == "learned" || added == "alibi") {
    draft.complaints().add(
        flag,
        fmt::format(
            "Megatron then adds {} positions to the rotary ones of multi-head latent attention, "
            "and Trireme has only the latter: use --position-embedding-type rope",
            added));
  } else if (added == "none") {
    draft.note(flag, "multi-head latent attention has rotary positions anyway, as in Megatron");
  }
  origin = flag == kLatent ? flag : fmt::format("{} and {}", kLatent, flag);
  return "rope";
}

// Megatron computes GELU in tanh form if fused with the bias, and exactly otherwise.
std::string activation(Draft& draft, std::string& origin) {
  for (const auto& [flag, name] : {std::pair{"--swiglu", "swiglu"},
                                   {"--glu-activation", "swiglu"},
                                   {"--quick-geglu", "swiglu"},
                                   {"--squared-relu", "squared_relu"},
                                   {"--openai-gelu", "gelu_tanh"}}) {
    if (!draft.has(flag)) continue;
    origin = flag;
    return name;
  }
  for (const char* flag : {"--no-bias-gelu-fusion", "--disable-bias-linear"}) {
    if (!draft.has(flag)) continue;
    origin = std::string(flag) + ": Megatron's unfused GELU";
    return "gelu_erf";
  }
  return "gelu_tanh";
}

// Gates as in gpt-oss: steeper, clamped, and with an offset of the gated value.
void gates(Draft& draft, bool gated) {
  const std::string quick = "--quick-geglu", clamp = "--activation-func-clamp-value",
                    offset = "--glu-linear-offset";
  if (draft.has(quick)) draft.set("model.gate_alpha", "1.702", quick);
  for (const auto& [flag, key] :
       {std::pair{clamp, "model.activation_clamp"}, {offset, "model.gate_offset"}}) {
    if (draft.has(flag) && !gated) {
      draft.note(flag, fmt::format("no effect without --swiglu or {}, as in Megatron", quick));
    } else if (draft.has(flag)) {
      draft.set(key, draft.value(flag), flag);
    }
  }
  if (!gated || !draft.has(clamp)) return;
  if (draft.number(clamp, 0) <= 0)
    return draft.complaints().add(clamp, fmt::format("{} is not above 0", draft.value(clamp)));
  if (draft.has(quick)) return;
  if (draft.integer("--num-experts", 1) <= 1)
    draft.complaints().add(clamp, "is supported with --swiglu only with experts, as in Megatron");
  if (draft.number(offset, 0) != 0)
    draft.complaints().add(offset, fmt::format("{} requires {}, as in Megatron", clamp, quick));
}

void sinks(Draft& draft) {
  const std::string flag = "--softmax-type";
  if (!draft.has(flag)) return;
  const bool learnable = draft.value(flag) == "learnable";
  draft.set("model.attention_sinks", learnable ? "true" : "false", flag);
  if (learnable)
    draft.note(flag, "attention sinks are initialized to 0, and in Megatron like other weights");
}

// Accepts Python modules that only repeat what other flags say.
void spec(Draft& draft) {
  const std::string flag = "--spec";
  if (!draft.has(flag)) return;
  const std::string words = fmt::format("{}", fmt::join(draft.line().flags.at(flag), " "));
  const bool hybrid = words == "megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec" ||
                      words == "megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec";
  const bool has_pattern =
      draft.has("--hybrid-layer-pattern") || draft.has("--hybrid-override-pattern");
  if (words != "local" && !(hybrid && has_pattern))
    return draft.complaints().add(
        flag, fmt::format("'{}' is a Python module: use the equivalent flags", words));
  draft.note(flag, "the flags are equivalent");
}

void heads(Draft& draft) {
  const char* const width = "--kv-channels";
  if (draft.has(width) && !draft.has(kLatent)) {
    draft.set("model.head_dim", draft.value(width), width);
  }
  if (draft.has("--num-key-value-heads")) {
    draft.set("model.num_kv_heads", draft.value("--num-key-value-heads"), "--num-key-value-heads");
  } else if (draft.has("--group-query-attention")) {
    const bool given = draft.has("--num-query-groups");
    draft.set("model.num_kv_heads", given ? draft.value("--num-query-groups") : "1",
              given ? "--num-query-groups" : "--group-query-attention alone: one group");
  } else if (draft.has("--num-query-groups")) {
    draft.note("--num-query-groups",
               "no effect without --group-query-attention, as in Megatron: every head has its own "
               "keys and values");
  }
}

void further_tokens(Draft& draft) {
  const char *const modules = "--mtp-num-layers", *const scale = "--mtp-loss-scaling-factor";
  if (draft.integer(modules, 0) != 0) {
    draft.set("model.mtp_layers", draft.value(modules), modules);
    if (draft.has(scale)) draft.set("model.mtp_loss_scale", draft.value(scale), scale);
  } else if (draft.has(scale)) {
    draft.note(scale, fmt::format("has an effect only with {}", modules));
  }
}

void biases(Draft& draft) {
  const bool bias = !draft.has("--disable-bias-linear");
  const bool qkv = bias || (draft.has("--add-qkv-bias") && !draft.has(kLatent));
  const std::string origin = bias ? kDefault : "--disable-bias-linear";
  draft.set("model.bias", bias ? "true" : "false", origin);
  draft.set("model.qkv_bias", qkv ? "true" : "false", qkv && !bias ? "--add-qkv-bias" : origin);
}

// BigScience's fork normalizes word embeddings before adding positions.
void embedding_norm(Draft& draft, const std::string& positions) {
  const std::string flag = "--embed-layernorm";
  if (!draft.has(flag)) return;
  if (positions == "learned") {
    return draft.complaints().add(
        flag,
        "Megatron then normalizes word embeddings before adding learned positions, but Trireme "
        "normalizes the sum, so it is supported only with --position-embedding-type alibi, rope or "
        "none");
  }
  draft.set("model.embedding_norm", "true", flag);
}

void head_norms(Draft& draft) {
  const std::string flag = "--qk-layernorm";
  if (!draft.has(flag) || draft.has(kLatent)) return;
  const std::string norm = draft.value("--normalization");
  if (norm != "RMSNorm" && norm != "rmsnorm") {
    return draft.complaints().add(
        flag,
        "Megatron then normalizes queries and keys with LayerNorm, but only RMSNorm is supported: "
        "add --normalization RMSNorm");
  }
  draft.set("model.qk_norm", "true", flag);
}

// Layers selected by a flag: every N-th layer, counted from 1, or the nonzero entries of a list
// with one entry per layer. Nullopt, with a complaint, for any other text.
struct MarkedLayers {
  bool is_number;
  std::vector<bool> marks;
};
std::optional<MarkedLayers> marked_layers(Draft& draft, const std::string& flag) {
  const std::int64_t layers = draft.integer("--num-layers", 0);
  const auto pattern = read_pattern(draft.value(flag));
  const bool fits =
      pattern && (pattern->is_number ? pattern->values[0] > 0
                                     : static_cast<std::int64_t>(pattern->values.size()) == layers);
  if (!fits) {
    draft.complaints().add(
        flag,
        fmt::format("{:?} is not a number above 0 or a list with one number for each of the {}",
                    draft.value(flag), counted(layers, "layer")));
    return std::nullopt;
  }
  MarkedLayers found{pattern->is_number, {}};
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    found.marks.push_back(pattern->is_number
                              ? (layer + 1) % pattern->values[0] == 0
                              : pattern->values[static_cast<std::size_t>(layer)] != 0);
  }
  return found;
}

// Indices of the layers whose mark equals `mark`.
std::vector<std::size_t> layers_with(const MarkedLayers& layers, bool mark) {
  std::vector<std::size_t> with;
  for (std::size_t layer = 0; layer < layers.marks.size(); ++layer)
    if (layers.marks[layer] == mark) with.push_back(layer);
  return with;
}

// Every N-th layer has no window; a list marks layers with one.
void layers_with_window(Draft& draft) {
  const std::string flag = "--window-attn-skip-freq";
  if (!draft.has(flag)) return;
  const auto found = marked_layers(draft, flag);
  if (!found) return;
  const auto with = layers_with(*found, !found->is_number);
  if (with.empty()) {
    draft.set("model.attention_window", "0", flag);
  } else if (with.size() < found->marks.size()) {
    draft.set("model.window_layers", fmt::format("[{}]", fmt::join(with, ", ")), flag);
  }
}

void layers_without_rope(Draft& draft, const std::string& positions) {
  const std::string flag = "--no-rope-freq";
  if (!draft.has(flag) || draft.value(flag) == "0") return;
  if (positions != "rope") {
    return draft.complaints().add(
        flag,
        "it removes positions from some layers, which requires --position-embedding-type rope");
  }
  if (draft.has("--multi-latent-attention"))
    return draft.complaints().add(flag,
                                  "Megatron does not apply it to multi-head latent attention");
  const auto found = marked_layers(draft, flag);
  if (!found) return;
  if (found->is_number && !found->marks.back()) {
    return draft.complaints().add(
        flag, fmt::format("the {} layers are not a multiple of {}, as Megatron requires",
                          found->marks.size(), draft.value(flag)));
  }
  const auto without = layers_with(*found, true);
  if (!without.empty())
    draft.set("model.no_rope_layers", fmt::format("[{}]", fmt::join(without, ", ")), flag);
}

// Parses "LEFT,RIGHT", optionally in parentheses: visible positions before and after each one.
void window(Draft& draft) {
  const std::string flag = "--window-size";
  if (!draft.has(flag)) return;
  std::string text = draft.value(flag);
  std::erase_if(text, [](char c) { return c == '(' || c == ')' || c == ' '; });
  std::int64_t left = 0, right = 0;
  const char* const end = text.data() + text.size();
  const auto [comma, bad_left] = std::from_chars(text.data(), end, left);
  const bool two = bad_left == std::errc() && comma != end && *comma == ',';
  const auto [last, bad_right] =
      two ? std::from_chars(comma + 1, end, right) : std::from_chars_result{end, std::errc()};
  if (!two || bad_right != std::errc() || last != end || left < -1 || left >= 1 << 24) {
    return draft.complaints().add(
        flag, fmt::format("{:?} is not two numbers such as \"(4095,0)\"", draft.value(flag)));
  }
  if (right != 0 && !(left == -1 && right == -1)) {
    return draft.complaints().add(
        flag, fmt::format("its second number is {}, but only 0 is supported: attention is causal",
                          right));
  }
  if (left < 0) return;
  draft.set("model.attention_window", fmt::format("{}", left + 1), flag);
  layers_with_window(draft);
}

// In the configuration a width of 0 is the default, and in Megatron no width at all.
void refuse_empty_widths(Draft& draft) {
  const auto refuse = [&](const char* flag) {
    if (draft.has(flag) && draft.integer(flag, 1) < 1)
      draft.complaints().add(flag, fmt::format("{} is no width", draft.value(flag)));
  };
  for (const char* flag : {"--ffn-hidden-size", "--kv-channels", "--moe-ffn-hidden-size"})
    refuse(flag);
  if (!draft.has(kLatent)) return;
  for (const char* flag : {"--qk-head-dim", "--qk-pos-emb-head-dim", "--v-head-dim"}) refuse(flag);
}

}  // namespace

void translate_model(Draft& draft) {
  refuse_empty_widths(draft);
  std::string where = kDefault;
  const bool latent = draft.has(kLatent);
  const std::string positions = latent ? latent_position(draft, where) : position(draft, where);
  draft.set_text("model.position", positions, where);
  if (!latent) scale_rope(draft, positions);
  layers_without_rope(draft, positions);
  translate_width(draft);  // whose scale of attention latent attention may replace
  translate_latent(draft);
  further_tokens(draft);
  embedding_norm(draft, positions);
  where = kDefault;
  const std::string function = activation(draft, where);
  draft.set_text("model.activation", function, where);
  if (draft.has("--no-bias-gelu-fusion")) {
    draft.note("--no-bias-gelu-fusion",
               function == "gelu_erf"
                   ? "Trireme chooses kernels itself; Megatron's unfused GELU is the exact one, "
                     "like model.activation = \"gelu_erf\""
                   : "Trireme chooses kernels itself, with the same meaning");
  }
  for (const char* wide : {"--glu-activation", "--quick-geglu"}) {
    if (!draft.has(wide) || draft.has("--ffn-hidden-size")) continue;
    const std::int64_t hidden = std::min<std::int64_t>(draft.integer("--hidden-size", 0), 1 << 30);
    draft.set("model.ffn_hidden_size", fmt::format("{}", 4 * hidden), wide);
  }
  gates(draft, function == "swiglu");
  sinks(draft);
  spec(draft);
  heads(draft);
  biases(draft);
  head_norms(draft);
  window(draft);
  const std::string norm = draft.value("--normalization");
  const bool like_llama = positions == "rope" && function == "swiglu" &&
                          (norm == "RMSNorm" || norm == "rmsnorm") &&
                          draft.has("--disable-bias-linear");
  const bool bert = draft.program() == Program::bert;
  // The family only sets defaults; all keys that depend on it are set explicitly.
  draft.set_text("model.family",
                 bert         ? "bert"
                 : like_llama ? "llama"
                              : "gpt",
                 bert ? "pretrain-bert" : "pretrain-gpt");
}

}  // namespace trireme::megatron
