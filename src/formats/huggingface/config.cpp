// Reading config.json: GPT-2, BLOOM and BERT, special tokens, and which function reads which kind.
#include "formats/huggingface/config.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/foreign.h"
#include "formats/huggingface/keys.h"
#include "formats/huggingface/llama.h"
#include "formats/huggingface/reader.h"

namespace trireme {
namespace {

ModelConfig read_gpt2(const HuggingFaceReader& json) {
  json.must_be("scale_attn_weights", true);
  json.must_be("scale_attn_by_inverse_layer_idx", false);
  json.must_be("is_causal", true);
  ModelConfig m;
  m.family = "gpt";
  m.num_layers = json.size(json.either("n_layer", "num_hidden_layers"), "num_layers");
  m.hidden_size = json.size(json.either("n_embd", "hidden_size"), "hidden_size");
  m.num_heads = json.size(json.either("n_head", "num_attention_heads"), "num_heads");
  m.ffn_hidden_size = 4 * m.hidden_size;
  if (json.has("n_inner")) m.ffn_hidden_size = json.size("n_inner", "ffn_hidden_size");
  m.max_positions =
      json.size(json.either("n_positions", "max_position_embeddings"), "max_positions");
  m.vocab_size = json.size("vocab_size", "vocab_size");
  m.activation = json.activation("activation_function", "gelu_new");
  m.norm_eps = json.number("layer_norm_epsilon", "norm_eps", 1e-5);
  m.tie_embeddings = json.flag("tie_word_embeddings", true);
  m.hidden_dropout = json.number("resid_pdrop", "hidden_dropout", 0.1);
  if (json.number("embd_pdrop", "hidden_dropout", 0.1) != m.hidden_dropout)
    json.refuse(json.has("embd_pdrop") ? "embd_pdrop" : "resid_pdrop",
                "embd_pdrop and resid_pdrop must be the same");
  m.attention_dropout = json.number("attn_pdrop", "attention_dropout", 0.1);
  m.init_std = json.number("initializer_range", "init_std", 0.02);
  return m;
}

// Older files have other names for some of the keys.
ModelConfig read_bloom(const HuggingFaceReader& json) {
  json.must_be("apply_residual_connection_post_layernorm", false);
  json.must_be("is_causal", true);
  ModelConfig m;
  m.family = "gpt";
  m.position = "alibi";
  m.embedding_norm = true;
  m.num_layers = json.size(json.either("n_layer", "num_hidden_layers"), "num_layers");
  m.hidden_size = json.size(json.either("hidden_size", "n_embed"), "hidden_size");
  m.num_heads = json.size(json.either("n_head", "num_attention_heads"), "num_heads");
  m.ffn_hidden_size = 4 * m.hidden_size;
  for (const char* key : {"n_inner", "intermediate_size"})
    if (json.has(key)) json.must_be(key, m.ffn_hidden_size);
  m.max_positions = json.size("seq_length", "max_positions", 2048);
  m.vocab_size = json.size("vocab_size", "vocab_size");
  m.norm_eps = json.number("layer_norm_epsilon", "norm_eps", 1e-5);
  m.tie_embeddings = json.flag("tie_word_embeddings", true);
  m.hidden_dropout = json.number("hidden_dropout", "hidden_dropout", 0);
  m.attention_dropout = json.number("attention_dropout", "attention_dropout", 0);
  m.init_std = json.number("initializer_range", "init_std", 0.02);
  return m;
}

ModelConfig read_bert(const HuggingFaceReader& json) {
  if (json.text("position_embedding_type", "absolute") != "absolute") {
    json.refuse("position_embedding_type", "only absolute is supported");
  }
  json.must_be("is_decoder", false);
  json.must_be("is_causal", false);
  json.must_be("type_vocab_size", 2);
  ModelConfig m;
  m.family = "bert";
  m.num_layers = json.size("num_hidden_layers", "num_layers");
  m.hidden_size = json.size("hidden_size", "hidden_size");
  m.num_heads = json.size("num_attention_heads", "num_heads");
  m.ffn_hidden_size = json.size("intermediate_size", "ffn_hidden_size");
  m.max_positions = json.size("max_position_embeddings", "max_positions");
  m.vocab_size = json.size("vocab_size", "vocab_size");
  m.activation = json.activation("hidden_act", "gelu");
  m.norm_eps = json.number("layer_norm_eps", "norm_eps", 1e-12);
  m.tie_embeddings = json.flag("tie_word_embeddings", true);
  m.hidden_dropout = json.number("hidden_dropout_prob", "hidden_dropout", 0.1);
  m.attention_dropout = json.number("attention_probs_dropout_prob", "attention_dropout", 0.1);
  m.init_std = json.number("initializer_range", "init_std", 0.02);
  return m;
}

// The ids of a key, one or a list. Ids outside the vocabulary are ignored: they are defaults that a
// model with a smaller vocabulary never changed.
std::vector<std::int64_t> read_tokens(const HuggingFaceReader& json, const char* key,
                                      std::int64_t vocab) {
  std::vector<std::int64_t> ids;
  if (!json.has(key)) return ids;
  const auto& given = json[key];
  const auto list = given.is_array() ? given : HuggingFaceReader::Json::array({given});
  for (const auto& value : list) {
    if (!value.is_number_integer()) json.refuse(key, "it must be the id of a token");
    const auto id = value.get<std::int64_t>();
    if (id >= 0 && id < vocab) ids.push_back(id);
  }
  return ids;
}

SpecialTokens read_all_tokens(const HuggingFaceReader& json, std::int64_t vocab) {
  const auto first = [&](const char* key) {
    const std::vector<std::int64_t> ids = read_tokens(json, key, vocab);
    return ids.empty() ? -1 : ids.front();
  };
  SpecialTokens tokens{first("bos_token_id"), -1, first("pad_token_id"), {}};
  tokens.further_eos = read_tokens(json, "eos_token_id", vocab);
  if (!tokens.further_eos.empty()) {
    tokens.eos = tokens.further_eos.front();
    tokens.further_eos.erase(tokens.further_eos.begin());
  }
  return tokens;
}

// Code of the folder's own is not run. It may be an older copy of the class that transformers has
// itself by now, and has the names of its classes then.
void check_own_code(const HuggingFaceReader& json, HuggingFaceKind kind) {
  if (!json.has("auto_map")) return;
  const std::string_view whole = huggingface_class(kind);
  const std::string_view stem = whole.substr(0, whole.find("For"));
  const HuggingFaceReader map = json.section("auto_map");
  for (const auto& [use, value] : map.json().items()) {
    if (!use.starts_with("AutoModel") && use != "AutoConfig") continue;
    const std::string name = value.is_string() ? value.get<std::string>() : "";
    if (std::string_view(name).substr(name.rfind('.') + 1).starts_with(stem)) continue;
    map.refuse(
        use.c_str(),
        fmt::format("it is code of the folder's own, which is not run: only what {} computes "
                    "is known",
                    whole));
  }
  json.note("config.json: the folder's own code (auto_map) is not run; the model is read as the " +
            std::string(whole) + " of transformers");
}

// What changes the numbers of every kind.
void refuse_everywhere(const HuggingFaceReader& json) {
  for (const char* key : {"quantization_config", "quantization", "compression_config"})
    json.must_be_absent(key, "quantized weights are not read");
  json.must_be_absent("pruned_heads", "all heads must be there");
  json.must_be_absent("per_layer_config", "layers that differ by it are not supported");
}

// The model and its kind, before defaults are filled in.
HuggingFaceModel read_kind(const HuggingFaceReader& json) {
  const std::string type = json.text("model_type", "");
  std::vector<std::string> supported = {"gpt2", "bloom"};
  if (type == "gpt2") return {HuggingFaceKind::gpt2, read_gpt2(json), {}, ""};
  if (type == "bloom") return {HuggingFaceKind::bloom, read_bloom(json), {}, ""};
  for (const LlamaRelative& relative : llama_relatives()) {
    supported.emplace_back(huggingface_model_type(relative.kind));
    if (type != supported.back()) continue;
    return {relative.kind, relative.read(json), {}, ""};
  }
  for (const HuggingFaceKind kind : {HuggingFaceKind::bert, HuggingFaceKind::megatron_bert}) {
    supported.emplace_back(huggingface_model_type(kind));
    if (type != supported.back()) continue;
    HuggingFaceModel model{kind, read_bert(json), {}, ""};
    if (kind == HuggingFaceKind::bert) model.model.norm_placement = "post";
    return model;
  }
  if (!json.has("model_type")) fail_input("'{}' lacks 'model_type'", json.name());
  const std::string last = supported.back();
  supported.pop_back();
  json.refuse("model_type",
              fmt::format("supported are {} and {}", fmt::join(supported, ", "), last));
}

}  // namespace

HuggingFaceModel parse_huggingface_config(std::string_view text, const std::string& name) {
  const HuggingFaceReader json(text, name);
  HuggingFaceModel out = read_kind(json);
  refuse_everywhere(json);
  check_own_code(json, out.kind);
  out.tokens = read_all_tokens(json, out.model.vocab_size);
  json.refuse_unread(huggingface_class(out.kind),
                     {huggingface_keys_of(out.kind), huggingface_common_keys()});
  out.note = json.notes();
  if (out.kind == HuggingFaceKind::mistral && out.model.attention_window == 0)
    out.kind = HuggingFaceKind::llama;
  ModelConfig& m = out.model;
  m.seq_length = m.max_positions;
  // The family must not replace these values as if they were defaults.
  m.given = {"bias", "qkv_bias", "tie_embeddings", "norm_eps", "token_types"};
  resolve(m);
  validate(m);
  return out;
}

HuggingFaceModel read_huggingface_config(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  if (!fs::exists(file)) {
    if (!fs::exists(folder)) fail_input("'{}' does not exist", folder.string());
    const std::string foreign = describe_foreign(folder);
    fail_input("'{}' is not the folder of a Hugging Face model: it has no config.json{}{}",
               folder.string(), foreign.empty() ? "" : "; ", foreign);
  }
  return parse_huggingface_config(read_file(file, std::uint64_t{16} << 20), file.string());
}

}  // namespace trireme
