// Translates model keys that depend on several flags.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

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
  if (type == "rope" || type == "alibi" || type == "none") return type;
  if (draft.has("--no-position-embedding")) {
    origin = "--no-position-embedding";
    return "none";
  }
  return "learned";
}

// Latent attention has its own RoPE; position embeddings would be added to it.
std::string latent_position(Draft& draft, std::string& origin) {
  const std::string added = position(draft, origin);
  const std::string flag = origin == kDefault ? kLatent : origin;
  if (added == "learned" || added == "alibi") {
    draft.complaints().add(
        flag, fmt::format("Megatron then has {} positions next to the rotary ones of latent "
                          "attention, which has only the latter here: --position-embedding-type "
                          "rope says the same there",
                          added));
  } else if (added == "none") {
    draft.note(flag, "latent attention has rotary positions all the same, as in Megatron");
  }
  origin = flag == kLatent ? flag : fmt::format("{} and {}", kLatent, flag);
  return "rope";
}

// Megatron computes GELU in tanh form if fused with the bias, and exactly otherwise.
std::string activation(Draft& draft, std::string& origin) {
  for (const auto& [flag, name] : {std::pair{"--swiglu", "swiglu"},
                                   {"--glu-activation", "swiglu"},
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

void heads(Draft& draft) {
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

// RoPE scaling for longer sequences; `flag` selects the kind, `factor` the amount.
void scale_rope(Draft& draft, const char* how, const std::string& flag, const std::string& factor) {
  const bool given = draft.has(factor);
  if (given && draft.number(factor, 0) <= 1) {
    return draft.complaints().add(
        factor,
        fmt::format("{} is not above 1, by which frequencies are divided", draft.value(factor)));
  }
  draft.set_text("model.rope_scaling", how, flag);
  draft.set("model.rope_scaling_factor", given ? draft.value(factor) : "8.0",
            given ? factor : kDefault);
}

void rope_scaling(Draft& draft, const std::string& positions) {
  const std::string linear = "--rotary-seq-len-interpolation-factor";
  const std::string llama3 = "--use-rope-scaling", factor = "--rope-scaling-factor";
  if (draft.has(factor) && !draft.has(llama3))
    draft.note(factor, fmt::format("no effect without {}, as in Megatron", llama3));
  if (draft.integer(linear, 0) == 1) draft.line().flags.erase(linear);
  draft.contradicts(llama3, linear, "frequencies are scaled in one way");
  for (const std::string& flag : {linear, llama3}) {
    if (draft.has(flag) && positions != "rope")
      draft.note(flag, "no effect without --position-embedding-type rope");
  }
  if (positions != "rope") return;
  if (draft.has(linear)) scale_rope(draft, "linear", linear, linear);
  if (!draft.has(llama3)) return;
  scale_rope(draft, "llama3", llama3, factor);
  draft.set("model.rope_low_freq_factor", "1.0", llama3);
  draft.set("model.rope_high_freq_factor", "4.0", llama3);
  draft.set("model.rope_original_length", "8192", llama3);
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
        "Megatron then normalizes words before learned positions are added; here the sum is "
        "normalized, so only --position-embedding-type alibi, rope or none goes with it");
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
        "Megatron then normalizes queries and keys by LayerNorm; only --normalization RMSNorm "
        "is supported with it");
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
        flag, fmt::format("{:?} is neither a number above 0 nor a list with a number for each of "
                          "the {} layers",
                          draft.value(flag), layers));
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
        "it leaves positions out of some layers, and goes with --position-embedding-type "
        "rope only");
  }
  if (draft.has("--multi-latent-attention"))
    return draft.complaints().add(flag, "Megatron does not apply it to latent attention");
  const auto found = marked_layers(draft, flag);
  if (!found) return;
  if (found->is_number && !found->marks.back()) {
    return draft.complaints().add(
        flag, fmt::format("the {} layers are no multiple of {}, as Megatron requires",
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
        flag, fmt::format("its second number is {}, and only 0 is supported: no position sees a "
                          "later one",
                          right));
  }
  if (left < 0) return;
  draft.set("model.attention_window", fmt::format("{}", left + 1), flag);
  layers_with_window(draft);
}

}  // namespace

void translate_model(Draft& draft) {
  std::string where = kDefault;
  const bool latent = draft.has(kLatent);
  const std::string positions = latent ? latent_position(draft, where) : position(draft, where);
  draft.set_text("model.position", positions, where);
  if (!latent) rope_scaling(draft, positions);
  layers_without_rope(draft, positions);
  translate_latent(draft);
  further_tokens(draft);
  embedding_norm(draft, positions);
  where = kDefault;
  const std::string function = activation(draft, where);
  draft.set_text("model.activation", function, where);
  if (draft.has("--no-bias-gelu-fusion")) {
    draft.note("--no-bias-gelu-fusion",
               function == "gelu_erf"
                   ? "kernels are chosen here; Megatron's unfused GELU is the exact one, as is "
                     "model.activation = \"gelu_erf\""
                   : "kernels are chosen here, with the same meaning");
  }
  if (draft.has("--glu-activation") && !draft.has("--ffn-hidden-size")) {
    const std::int64_t hidden = std::min<std::int64_t>(draft.integer("--hidden-size", 0), 1 << 30);
    draft.set("model.ffn_hidden_size", fmt::format("{}", 4 * hidden), "--glu-activation");
  }
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
