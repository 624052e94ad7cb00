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
constexpr const char* further_keys[] = {"additional_special_tokens", "extra_special_tokens"};

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

}  // namespace

PlacedToken read_added_token(const JsonPlace& place, std::int32_t id) {
  return {{.content = place.at("content").text(),
           .id = id,
           .special = place.flag_or("special", false),
           .single_word = place.flag_or("single_word", false),
           .lstrip = place.flag_or("lstrip", false),
           .rstrip = place.flag_or("rstrip", false),
           .normalized = place.flag_or("normalized", true)},
          place};
}

PlacedToken read_special_token(const JsonPlace& place) {
  if (place.is_text()) return {{.content = place.text()}, place};
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
  if (map_.place().has(key) && !config().has(decoder_key)) return map_.place().at(key);
  if (config().has(key)) return config().at(key);
  return std::nullopt;
}

bool TokenizerCompanions::is_older(const JsonPlace& place) const {
  return &place.file() == &added_.file || &place.file() == &map_.file;
}

bool TokenizerCompanions::older_files_name_eos() const {
  const auto name = special("eos_token");
  return name && is_older(*name) &&
         !(config().has("eos_token") && config().at("eos_token").value() == name->value());
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
         place});
  }
  sort_by_id(tokens);
  return tokens;
}

std::vector<PlacedToken> TokenizerCompanions::special() const {
  std::vector<PlacedToken> tokens;
  const auto add = [&](const JsonPlace& place) {
    PlacedToken read = read_special_token(place);
    if (!read.token.content.empty()) tokens.push_back(std::move(read));
  };
  for (const char* key : special_keys)
    if (const auto name = special(key)) add(*name);
  for (const char* key : further_keys) {
    const auto names = special(key);
    if (!names) continue;
    if (names->value().is_object()) {
      for (const auto& [name, value] : names->value().items()) add(names->at(name));
    } else {
      for (std::size_t i = 0; i < names->size(); ++i) add(names->at(i));
    }
  }
  return tokens;
}

std::vector<std::string> TokenizerCompanions::further_names() const {
  std::vector<std::string> keys;
  if (config().is_null()) return keys;
  for (const auto& [key, value] : config().value().items()) {
    const bool is_text = value.is_string() && !value.get_ref<const std::string&>().empty();
    if (is_text && key.ends_with("_token") && !std::ranges::count(special_keys, key))
      keys.push_back(key);
  }
  return keys;
}

}  // namespace trireme
