// Compares tokenizer.json and the files next to it with what the type of tokenizer implies.
#include "formats/huggingface/plain_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "base/printable.h"
#include "tokenizer/huggingface/companions.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary_lines.h"

namespace trireme {
namespace {

using Json = nlohmann::json;
using Names = std::initializer_list<std::string_view>;
// Whether a token is one that the type recognizes in texts, with this id (-1: any).
using Knows = std::function<bool(const std::string& content, std::int64_t id)>;

constexpr std::uint64_t max_file = std::uint64_t{256} << 20;

Json parse_if_there(const fs::path& path) {
  return fs::exists(path) ? parse_json(read_file(path, max_file), path.string()) : Json();
}

Json value_of(const Json& json, const char* key) {
  return json.is_object() ? json.value(key, Json()) : Json();
}

bool is_one_of(const Json& value, std::initializer_list<Json> allowed) {
  return std::ranges::find(allowed, value) != allowed.end();
}

// The first key of `json` whose value is not one of those allowed; null and absence always are.
std::string first_other(const Json& json, const std::string& where,
                        std::initializer_list<std::pair<const char*, Json>> allowed) {
  for (const auto& [key, only] : allowed) {
    const Json value = value_of(json, key);
    if (!value.is_null() && value != only)
      return fmt::format("{}.{} is {}", where, key, json_shown(value));
  }
  return "";
}

std::string beyond_token(const PlacedToken& one, const Knows& knows) {
  const AddedToken& token = one.token;
  if (token.single_word || token.lstrip || token.rstrip || !knows(token.content, token.id))
    return fmt::format("{} names the token '{}'", one.place.name(), printable(token.content));
  return "";
}

// Class, options and tokens that the files next to the vocabulary name.
std::string beyond_companions(const fs::path& folder, const Names& classes, const Knows& knows,
                              std::initializer_list<std::pair<const char*, Json>> options) {
  const TokenizerCompanions companions(folder);
  const Json& config = companions.config().value();
  Json name = value_of(config, "tokenizer_class");
  if (name.is_null()) name = value_of(parse_if_there(folder / "config.json"), "tokenizer_class");
  if (name.is_string() &&
      std::ranges::find(classes, name.get_ref<const std::string&>()) == classes.end())
    return fmt::format("its tokenizer_class is '{}'", printable(name.get<std::string>()));
  if (auto other = first_other(config, "in tokenizer_config.json, tokenizer", options);
      !other.empty())
    return other;
  for (const auto& tokens : {companions.listed(), companions.older(), companions.special()}) {
    for (const PlacedToken& one : tokens)
      if (auto beyond = beyond_token(one, knows); !beyond.empty()) return beyond;
  }
  return "";
}

std::string beyond_added_tokens(const Json& added, const Knows& knows) {
  if (added.is_null()) return "";
  for (const Json& token : added) {
    const Json content = value_of(token, "content"), id = value_of(token, "id");
    const bool plain = content.is_string() && id.is_number_integer() &&
                       knows(content.get<std::string>(), id.get<std::int64_t>()) &&
                       value_of(token, "single_word") != true &&
                       value_of(token, "lstrip") != true && value_of(token, "rstrip") != true;
    if (!plain) return fmt::format("its tokenizer.json has the added token {}", content.dump());
  }
  return "";
}

bool are_merges_of(const Json& merges, const fs::path& file) {
  const std::vector<std::string> lines = merge_lines(file);
  if (!merges.is_array() || merges.size() != lines.size()) return false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Json& merge = merges[i];
    const bool pair =
        merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    const Json text =
        pair ? Json(merge[0].get<std::string>() + " " + merge[1].get<std::string>()) : merge;
    if (text != lines[i]) return false;
  }
  return true;
}

bool has_type(const Json& step, const char* type) {
  return value_of(step, "type") == type;
}

// Whether texts become [CLS] A [SEP] and pairs [CLS] A [SEP] B [SEP], in either of the two ways in
// which files say so.
bool adds_bert_tokens(const Json& step, const Json& cls, const Json& sep) {
  if (has_type(step, "BertProcessing"))
    return value_of(step, "cls") == Json{"[CLS]", cls} &&
           value_of(step, "sep") == Json{"[SEP]", sep};
  return step == bert_post_processor(cls, sep);
}

// tokenizer.json, which loaders prefer, against the vocabulary files.
std::string beyond_gpt2_json(const fs::path& folder, const Json& vocabulary, const Knows& knows) {
  const Json json = parse_if_there(folder / "tokenizer.json");
  if (json.is_null()) return "";
  const std::string differs = "its tokenizer.json differs in ";
  const Json model = value_of(json, "model"), splitter = value_of(json, "pre_tokenizer"),
             after = value_of(json, "post_processor");
  if (value_of(model, "vocab") != vocabulary) return differs + "the vocabulary";
  if (!are_merges_of(value_of(model, "merges"), folder / "merges.txt"))
    return differs + "the merges";
  if (auto other = first_other(model, "in tokenizer.json, model",
                               {{"type", "BPE"},
                                {"continuing_subword_prefix", ""},
                                {"end_of_word_suffix", ""},
                                {"byte_fallback", false},
                                {"ignore_merges", false},
                                {"dropout", Json()}});
      !other.empty())
    return other;
  if (!value_of(json, "normalizer").is_null()) return differs + "the normalizer";
  if (!has_type(splitter, "ByteLevel") || value_of(splitter, "add_prefix_space") != false ||
      value_of(splitter, "use_regex") == false)
    return differs + "the pre-tokenizer";
  if (!after.is_null() && !has_type(after, "ByteLevel")) return differs + "the post-processor";
  if (!has_type(value_of(json, "decoder"), "ByteLevel")) return differs + "the decoder";
  return beyond_added_tokens(value_of(json, "added_tokens"), knows);
}

std::string beyond_bert_json(const fs::path& folder, const Json& vocabulary, const Knows& knows) {
  const Json json = parse_if_there(folder / "tokenizer.json");
  if (json.is_null()) return "";
  const Json model = value_of(json, "model"), normalizer = value_of(json, "normalizer");
  if (value_of(model, "vocab") != vocabulary) return "its tokenizer.json differs in the vocabulary";
  if (auto other = first_other(model, "in tokenizer.json, model",
                               {{"type", "WordPiece"},
                                {"unk_token", "[UNK]"},
                                {"continuing_subword_prefix", "##"},
                                {"max_input_chars_per_word", 100}});
      !other.empty())
    return other;
  const bool lower = lowers_case(folder);
  if (!has_type(normalizer, "BertNormalizer")) return "its tokenizer.json has another normalizer";
  if (auto other = first_other(normalizer, "in tokenizer.json, normalizer",
                               {{"clean_text", true},
                                {"handle_chinese_chars", true},
                                {"lowercase", lower},
                                {"strip_accents", lower}});
      !other.empty())
    return other;
  if (!has_type(value_of(json, "pre_tokenizer"), "BertPreTokenizer"))
    return "its tokenizer.json has another pre-tokenizer";
  if (!adds_bert_tokens(value_of(json, "post_processor"), value_of(vocabulary, "[CLS]"),
                        value_of(vocabulary, "[SEP]")))
    return "its tokenizer.json has another post-processor";
  if (!has_type(value_of(json, "decoder"), "WordPiece"))
    return "its tokenizer.json has another decoder";
  return beyond_added_tokens(value_of(json, "added_tokens"), knows);
}

}  // namespace

Json line_numbers(const fs::path& path) {
  Json numbers = Json::object();
  std::int64_t line = 0;
  for (const std::string& token : vocabulary_lines(path)) numbers[token] = line++;
  return numbers;
}

Json bert_post_processor(const Json& cls, const Json& sep) {
  const auto piece = [](const char* kind, const char* id, int type) -> Json {
    return {{kind, {{"id", id}, {"type_id", type}}}};
  };
  const auto special = [](const char* token, const Json& id) -> Json {
    return {{"id", token}, {"ids", Json::array({id})}, {"tokens", Json::array({token})}};
  };
  const Json begin = piece("SpecialToken", "[CLS]", 0), first = piece("Sequence", "A", 0),
             end = piece("SpecialToken", "[SEP]", 0);
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({begin, first, end})},
          {"pair", Json::array({begin, first, end, piece("Sequence", "B", 1),
                                piece("SpecialToken", "[SEP]", 1)})},
          {"special_tokens", {{"[CLS]", special("[CLS]", cls)}, {"[SEP]", special("[SEP]", sep)}}}};
}

std::vector<std::string> vocabulary_lines(const fs::path& path) {
  const std::string content = read_file(path, max_file);
  std::vector<std::string> lines;
  for (std::string_view rest = without_byte_order_mark(content); !rest.empty();)
    lines.emplace_back(trimmed_end(take_vocabulary_line(rest)));
  return lines;
}

std::vector<std::string> merge_lines(const fs::path& path) {
  std::vector<std::string> lines = vocabulary_lines(path);
  if (!lines.empty() && lines[0].starts_with("#version")) lines.erase(lines.begin());
  std::erase(lines, "");
  return lines;
}

bool lowers_case(const fs::path& folder) {
  const Json config = parse_if_there(folder / "tokenizer_config.json");
  return value_of(config, "do_lower_case") != false;
}

std::string beyond_gpt2_vocabulary(const fs::path& folder) {
  const Json vocabulary = parse_if_there(folder / "vocab.json");
  const Knows knows = [&](const std::string& content, std::int64_t id) {
    return content == "<|endoftext|>" && (id < 0 || value_of(vocabulary, content.c_str()) == id);
  };
  auto beyond = beyond_companions(
      folder,
      {"GPT2Tokenizer", "GPT2TokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"}, knows,
      {{"add_prefix_space", false},
       {"add_bos_token", false},
       {"add_eos_token", false},
       {"split_special_tokens", false}});
  return beyond.empty() ? beyond_gpt2_json(folder, vocabulary, knows) : beyond;
}

std::string beyond_bert_vocabulary(const fs::path& folder) {
  const Json vocabulary = line_numbers(folder / "vocab.txt");
  const Knows knows = [&](const std::string& content, std::int64_t id) {
    return is_one_of(content, {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) &&
           (id < 0 || value_of(vocabulary, content.c_str()) == id);
  };
  auto beyond = beyond_companions(
      folder,
      {"BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"}, knows,
      {{"tokenize_chinese_chars", true},
       {"strip_accents", lowers_case(folder)},
       {"split_special_tokens", false}});
  return beyond.empty() ? beyond_bert_json(folder, vocabulary, knows) : beyond;
}

std::string beyond_llama2_model(const fs::path& folder) {
  std::unique_ptr<Tokenizer> model;
  const Knows knows = [&](const std::string& content, std::int64_t id) {
    if (!model) {
      model = make_tokenizer({.type = "llama2",
                              .vocab_file = {},
                              .merge_file = {},
                              .model_file = (folder / "tokenizer.model").string(),
                              .pattern = {}});
    }
    const std::int32_t own = model->token_id(content);
    return own >= 0 && (id < 0 || own == id);
  };
  return beyond_companions(folder, {"LlamaTokenizer", "LlamaTokenizerFast"}, knows,
                           {{"add_bos_token", true},
                            {"add_eos_token", false},
                            {"add_prefix_space", true},
                            {"sp_model_kwargs", Json::object()},
                            {"split_special_tokens", false}});
}

}  // namespace trireme
