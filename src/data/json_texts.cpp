// simdjson for what is well-formed; for the rest a second, slower and more patient reader.
#include "data/json_texts.h"

#include <simdjson.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/jsonl.h"

namespace trireme {

struct JsonTexts::State {
  bool read_fast(std::string_view line);
  void read_patiently(std::string_view line);

  std::vector<std::string> keys;
  std::vector<std::vector<std::string_view>> texts;  // by key
  simdjson::dom::parser parser;
  nlohmann::json patient;
};

// False for every line that the other reader may have to refuse; it finds the reason.
bool JsonTexts::State::read_fast(std::string_view line) {
  simdjson::dom::object object;
  if (parser.parse(line.data(), line.size(), false).get(object)) return false;
  std::size_t found = 0;
  for (auto& key_texts : texts) key_texts.clear();
  for (const auto field : object) {
    for (std::size_t k = 0; k < keys.size(); ++k) {
      if (field.key != keys[k]) continue;
      if (!texts[k].empty()) return false;  // a repeated key
      std::string_view text;
      if (field.value.get(text)) return false;
      texts[k].push_back(text);
      ++found;
    }
  }
  return found == keys.size();
}

void JsonTexts::State::read_patiently(std::string_view line) {
  patient = parse_json(repaired_json(line), [](const JsonFault& fault) {
    fail_input("not JSON: column {}: {}", fault.column, fault.what);
  });
  if (!patient.is_object()) fail_input("not a JSON object but {}", json_shown(patient));
  for (std::size_t k = 0; k < keys.size(); ++k) {
    texts[k].clear();
    const auto value = patient.find(keys[k]);
    if (value == patient.end()) {
      fail_input("no key \"{}\"; {}", keys[k], json_keys_shown(patient));
    }
    if (value->is_string()) {
      texts[k].push_back(value->get_ref<const std::string&>());
      continue;
    }
    if (!value->is_array()) {
      fail_input("the value of \"{}\" is {}, not a string", keys[k], json_shown(*value));
    }
    for (const nlohmann::json& text : *value) {
      if (!text.is_string()) {
        fail_input("the list at \"{}\" holds {}, not only strings", keys[k], json_shown(text));
      }
      texts[k].push_back(text.get_ref<const std::string&>());
    }
  }
}

JsonTexts::JsonTexts(std::vector<std::string> keys) : state_(std::make_unique<State>()) {
  state_->texts.resize(keys.size());
  state_->keys = std::move(keys);
}

JsonTexts::~JsonTexts() = default;

const std::vector<std::vector<std::string_view>>& JsonTexts::read(std::string_view line) {
  if (!state_->read_fast(line)) state_->read_patiently(line);
  return state_->texts;
}

}  // namespace trireme
