// Reads the files of --data-args-path and --per-split-data-args-path like Megatron: words separated
// by white space, or lists of them in JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLargestBlendFile = 16 << 20;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// Text of the file named by a flag; nullopt, with a complaint, if it does not exist.
std::optional<std::string> blend_text(Draft& draft, const char* flag,
                                      const TranslateOptions& options) {
  const std::string path = draft.value(flag);
  std::optional<std::string> text = text_of_file(options, path);
  if (!text) draft.complaints().add(flag, fmt::format("the file '{}' does not exist", path));
  return text;
}

// Reads a list of the JSON file. Throws bad_input if it is not a list.
std::vector<std::string> list_of(const Json& json, const char* name) {
  if (!json.contains(name))
    fail_input("has no \"{}\": expected a list, a string, or null for no data", name);
  const Json& value = json.at(name);
  if (value.is_null()) return {};
  if (value.is_string()) return words_of(value.get<std::string>());
  if (!value.is_array()) fail_input("\"{}\" is {}, not a list", name, json_shown(value));
  std::vector<std::string> words;
  for (const Json& word : value) {
    if (!word.is_string() && !word.is_number())
      fail_input("\"{}\" contains {}, which is neither a weight nor a path", name,
                 json_shown(word));
    words.push_back(word.is_string() ? word.get<std::string>() : word.dump());
  }
  return words;
}

void read_split_file(Draft& draft, const std::string& flag, const std::string& text) {
  try {
    const Json json = parse_json(text, draft.value(flag));
    if (!json.is_object()) fail_input("is {}, not a JSON object", json_shown(json));
    for (const auto& [name, value] : json.items()) {
      if (name != "train" && name != "valid" && name != "test")
        fail_input("\"{}\" is not one of train, valid and test", name);
    }
    for (const char* name : {"train", "valid", "test"}) {
      std::vector<std::string> words = list_of(json, name);
      if (!words.empty()) draft.give(fmt::format("--{}-data-path", name), std::move(words));
    }
  } catch (const Error& error) {
    draft.line().refused.insert(flag);
    draft.complaints().add(flag, fmt::format("'{}': {}", draft.value(flag), error.what()));
  }
}

}  // namespace

std::optional<std::string> text_of_file(const TranslateOptions& options, const std::string& path) {
  if (options.read_file) return options.read_file(path);
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  return read_file(path, kLargestBlendFile);
}

void read_blend_files(Draft& draft, const TranslateOptions& options) {
  constexpr const char* whole = "--data-args-path";
  constexpr const char* splits = "--per-split-data-args-path";
  for (const char* flag : {whole, splits}) {
    if (!draft.has(flag)) continue;
    for (const char* other : {whole, splits, "--data-path", "--train-data-path",
                              "--valid-data-path", "--test-data-path"}) {
      if (std::string(other) != flag)
        draft.contradicts(flag, other, "give the data in one place only");
    }
    const std::optional<std::string> text = blend_text(draft, flag, options);
    if (!text) {
      draft.line().refused.insert(flag);
    } else if (std::string(flag) == splits) {
      read_split_file(draft, flag, *text);
    } else if (std::vector<std::string> words = words_of(*text); !words.empty()) {
      draft.give("--data-path", std::move(words));
    } else {
      draft.complaints().add(flag, fmt::format("'{}' is empty", draft.value(flag)));
    }
  }
}

}  // namespace trireme::megatron
