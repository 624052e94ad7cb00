// Reads config.json: model class, special tokens, and settings common to all classes.
#include "formats/huggingface/config.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "checkpoint/foreign.h"
#include "formats/huggingface/reader.h"

namespace trireme {
namespace {

// Token ids of a key, one or a list. Ids outside the vocabulary are ignored: they are class
// defaults that a model with a smaller vocabulary never overrode.
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

// Code in the folder is not executed. It is accepted if it may be an older copy of a class now in
// transformers, i.e. if its class names match.
void check_own_code(const HuggingFaceReader& json, const HuggingFaceKind& kind) {
  if (!json.has("auto_map")) return;
  const std::string_view whole = kind.class_name;
  const std::string_view stem = whole.substr(0, whole.find("For"));
  const HuggingFaceReader map = json.section("auto_map");
  for (const auto& [use, value] : map.json().items()) {
    if (!use.starts_with("AutoModel") && use != "AutoConfig") continue;
    const std::string name = value.is_string() ? value.get<std::string>() : "";
    if (std::string_view(name).substr(name.rfind('.') + 1).starts_with(stem)) continue;
    map.refuse(
        use.c_str(),
        fmt::format("it is custom code of the folder, which is not run: only what {} computes is "
                    "supported",
                    whole));
  }
  json.note(
      "config.json: the custom code of the folder (auto_map) is not run; the model is read as the "
      "" +
      std::string(whole) + " of transformers");
}

// Refuses settings that change the results of any class.
void refuse_everywhere(const HuggingFaceReader& json, const HuggingFaceKind& kind) {
  if (kind.experts.take_turns() && json.has("quantization_config")) {
    // The tensors' names tell which of them are quantized.
    const HuggingFaceReader quantization = json.section("quantization_config");
    if (quantization.text("quant_method", "") != "mxfp4")
      quantization.refuse("quant_method", "only mxfp4 weights are supported");
    quantization.pass_over({"modules_to_not_convert", "dequantize"});
    quantization.refuse_unread("weights in MXFP4");
  }
  for (const char* key : {"quantization_config", "quantization", "compression_config"}) {
    if (key == std::string_view("quantization_config") && kind.experts.take_turns()) continue;
    json.must_be_absent(key, "quantized weights are not supported");
  }
  json.must_be_absent("pruned_heads", "no heads may be pruned");
  json.must_be_absent("per_layer_config", "layers that differ in it are not supported");
}

const HuggingFaceKind& kind_of(const HuggingFaceReader& json) {
  const std::string type = json.text("model_type", "");
  std::vector<std::string_view> supported;
  for (const HuggingFaceKind* kind : huggingface_kinds()) {
    if (type == kind->model_type) return *kind;
    supported.emplace_back(kind->model_type);
  }
  if (!json.has("model_type")) fail_input("'{}' lacks 'model_type'", json.name());
  const std::string_view last = supported.back();
  supported.pop_back();
  json.refuse("model_type", fmt::format("{}supported are {} and {}", missing_for(json),
                                        fmt::join(supported, ", "), last));
}

}  // namespace

ModelConfig read_as(const HuggingFaceKind& kind, const HuggingFaceReader& json) {
  ModelConfig m = kind.read(json);
  m.seq_length = m.max_positions;
  // Marked as given, so that the family's defaults do not replace these values.
  m.given = {"bias", "qkv_bias", "tie_embeddings", "norm_eps", "token_types"};
  resolve(m);
  return m;
}

HuggingFaceModel parse_huggingface_config(std::string_view text, const std::string& name) {
  const HuggingFaceReader json(text, name);
  const HuggingFaceKind& kind = kind_of(json);
  HuggingFaceModel out{&kind, read_as(kind, json), {}, ""};
  refuse_everywhere(json, kind);
  check_own_code(json, kind);
  out.tokens = read_all_tokens(json, out.model.vocab_size);
  json.refuse_unread(kind.class_name, {kind.inert, huggingface_common_keys()});
  out.note = json.notes();
  if (out.kind == &mistral_kind && out.model.attention_window == 0) out.kind = &llama_kind;
  validate(out.model);
  return out;
}

HuggingFaceModel read_huggingface_config(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  if (!fs::exists(file)) {
    if (!fs::exists(folder)) fail_input("'{}' does not exist", folder.string());
    const std::string foreign = describe_incomplete(folder);
    fail_input("'{}' is not the folder of a Hugging Face model: it has no config.json{}{}",
               folder.string(), foreign.empty() ? "" : "; ", foreign);
  }
  HuggingFaceModel out =
      parse_huggingface_config(read_file(file, std::uint64_t{16} << 20), file.string());
  take_generation_tokens(folder, out);
  return out;
}

void take_generation_tokens(const fs::path& folder, HuggingFaceModel& model) {
  const fs::path file = folder / "generation_config.json";
  if (!fs::exists(file)) return;
  const std::string name = file.string();
  const HuggingFaceReader json(read_file(file, std::uint64_t{16} << 20), name);
  const SpecialTokens given = read_all_tokens(json, model.model.vocab_size);
  const auto ends_of = [](const SpecialTokens& tokens) {
    std::set<std::int64_t> ends(tokens.further_eos.begin(), tokens.further_eos.end());
    ends.insert(tokens.eos);
    return ends;
  };
  SpecialTokens& tokens = model.tokens;
  if (tokens.bos < 0) tokens.bos = given.bos;
  if (tokens.pad < 0) tokens.pad = given.pad;
  if (given.eos < 0 || ends_of(given) == ends_of(tokens)) return;
  if (tokens.eos >= 0) {
    std::string& note = model.note;
    if (!note.empty()) note += "; ";
    note += fmt::format(
        "generation ends at the tokens of generation_config.json ({}), not at those of config.json "
        "({}), as in transformers",
        fmt::join(ends_of(given), ", "), fmt::join(ends_of(tokens), ", "));
  }
  tokens.eos = given.eos;
  tokens.further_eos = given.further_eos;
}

}  // namespace trireme
