// tokenizer_config.json, added_tokens.json and special_tokens_map.json. The latter two are older
// and count only if the first has no added_tokens_decoder, as in transformers.
#include "tokenizer/huggingface/companions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 28;
constexpr const char* decoder_key = "added_tokens_decoder";
constexpr const char* special_keys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
constexpr const char* additional_key = "additional_special_tokens";
constexpr const char* extra_key = "extra_special_tokens";

void sort_by_id(std::vector<PlacedToken>& tokens) {
  std::ranges::stable_sort(tokens, {}, [](const PlacedToken& one) { return one.token.id; });
}

std::int32_t id_of_key(const JsonPlace& place, const std::string& key) {
  std::int32_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < 0)
    place.refuse(fmt::format("has the key '{}', which is not the id of a token", key));
  return id;
}

void add_name(std::vector<PlacedToken>& tokens, const JsonPlace& place) {
  PlacedToken read = read_special_token(place);
  if (!read.token.content.empty()) tokens.push_back(std::move(read));
}

// Tokens under `key`: a list, or an object whose keys name them.
std::vector<PlacedToken> listed_names(const JsonPlace& root, const char* key) {
  std::vector<PlacedToken> tokens;
  if (!root.has(key)) return tokens;
  const JsonPlace names = root.at(key);
  if (names.value().is_object()) {
    for (const auto& [name, value] : names.value().items()) add_name(tokens, names.at(name));
  } else {
    for (std::size_t i = 0; i < names.size(); ++i) add_name(tokens, names.at(i));
  }
  return tokens;
}

}  // namespace

PlacedToken read_added_token(const JsonPlace& place, std::int32_t id) {
  return {{.content = place.at("content").text(),
           .id = id,
           .special = place.flag_or("special", false),
           .single_word = place.flag_or("single_word", false),
           .lstrip = place.flag_or("lstrip", false),
           .rstrip = place.flag_or("rstrip", false),
           .normalized = place.flag_or("normalized", true)},
          place,
          ""};
}

PlacedToken read_special_token(const JsonPlace& place) {
  if (place.is_text()) return {{.content = place.text()}, place, ""};
  PlacedToken read = read_added_token(place, -1);
  read.token.special = true;
  return read;
}

TokenizerCompanions::Document::Document(const fs::path& path)
    : file(path.string()), json(std::make_shared<const nlohmann::json>()) {
  if (!fs::exists(path)) return;
  content = read_file(path, kMaxFile);
  json = parse_json_file(file, content);
  if (!json->is_object()) place().refuse_kind("an object");
}

TokenizerCompanions::TokenizerCompanions(const fs::path& folder)
    : config_(folder / "tokenizer_config.json"),
      added_(folder / "added_tokens.json"),
      map_(folder / "special_tokens_map.json") {}

std::optional<JsonPlace> TokenizerCompanions::special(const std::string& key) const {
  const JsonPlace names = older_names().value().contains(key) ? older_names() : config();
  return names.has(key) ? std::optional(names.at(key)) : std::nullopt;
}

JsonPlace TokenizerCompanions::older_names() const {
  static const nlohmann::json nothing;
  return config().has(decoder_key) ? JsonPlace(nothing, map_.file) : map_.place();
}

bool TokenizerCompanions::is_older(const JsonPlace& place) const {
  return &place.file() == &added_.file || &place.file() == &map_.file;
}

bool TokenizerCompanions::older_files_name_eos() const {
  const nlohmann::json& names = older_names().value();
  if (!names.contains("eos_token")) return false;
  const nlohmann::json& own = config().value();
  return !own.contains("eos_token") || own["eos_token"] != names["eos_token"];
}

std::vector<PlacedToken> TokenizerCompanions::listed() const {
  std::vector<PlacedToken> tokens;
  if (!config().has(decoder_key)) return tokens;
  const JsonPlace list = config().at(decoder_key);
  if (!list.value().is_object()) list.refuse_kind("an object of ids and tokens");
  for (const auto& [key, value] : list.value().items())
    tokens.push_back(read_added_token(list.at(key), id_of_key(list, key)));
  sort_by_id(tokens);
  return tokens;
}

std::vector<PlacedToken> TokenizerCompanions::older() const {
  std::vector<PlacedToken> tokens;
  if (added_.json->is_null() || config().has(decoder_key)) return tokens;
  const std::vector<PlacedToken> names = special();
  for (const auto& [content, id] : added_.json->items()) {
    const bool is_special = std::ranges::any_of(
        names, [&](const PlacedToken& one) { return one.token.content == content; });
    const JsonPlace place = added_.place().at(content);
    tokens.push_back(
        {{.content = content, .id = place.id(), .special = is_special, .normalized = !is_special},
         place,
         ""});
  }
  sort_by_id(tokens);
  return tokens;
}

std::vector<PlacedToken> TokenizerCompanions::special() const {
  std::vector<PlacedToken> tokens;
  for (const char* key : special_keys)
    if (const auto name = special(key)) add_name(tokens, *name);
  for (const PlacedToken& one : listed_names(config(), extra_key)) tokens.push_back(one);
  for (const PlacedToken& one : listed_names(older_names(), extra_key)) tokens.push_back(one);
  add_additional(tokens);
  add_further_names(tokens);
  return tokens;
}

// transformers 4 joins the lists of both files, and 5 takes that of the configuration, unless it
// has extra_special_tokens.
void TokenizerCompanions::add_additional(std::vector<PlacedToken>& tokens) const {
  const std::string doubt = "versions of transformers join lists of special tokens in other ways";
  const bool is_alone = !config().has(extra_key);
  for (PlacedToken& one : listed_names(config(), additional_key)) {
    if (!is_alone) one.doubt = doubt;
    tokens.push_back(std::move(one));
  }
  for (PlacedToken& one : listed_names(older_names(), additional_key)) {
    if (!is_alone || config().has(additional_key)) one.doubt = doubt;
    tokens.push_back(std::move(one));
  }
}

// Other keys of the configuration that name a token, such as "image_token".
void TokenizerCompanions::add_further_names(std::vector<PlacedToken>& tokens) const {
  if (config().is_null()) return;
  const bool is_code_llama = config().text_or("tokenizer_class", "").starts_with("CodeLlama");
  for (const auto& [key, value] : config().value().items()) {
    if (!value.is_string() || !key.ends_with("_token") || std::ranges::count(special_keys, key))
      continue;
    if (is_code_llama && key == "fill_token") continue;  // a mark in prompts, not a token
    const std::size_t before = tokens.size();
    add_name(tokens, config().at(key));
    if (tokens.size() > before)
      tokens.back().doubt = "versions of transformers differ in whether they add it";
  }
}

}  // namespace trireme
