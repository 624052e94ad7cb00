// simdjson for what is well-formed; for the rest a second, slower and more patient reader.
#include "data/documents/json_texts.h"

#include <simdjson.h>

#include "tokenizer/json_line.h"

namespace trireme {

struct JsonTexts::State {
  explicit State(std::vector<std::string> of) : keys(std::move(of)), patient(keys, key_choice) {}
  bool read_fast(std::string_view line);

  std::vector<std::string> keys;
  std::vector<std::vector<std::string_view>> texts;  // by key
  simdjson::dom::parser parser;
  JsonLine patient;
  bool fast = false;  // whether the parser read the last line
};

// The parser takes some fourteen times the memory of the longest line.
constexpr std::size_t longest_for_parser = std::size_t{4} << 20;

// False for every line that the other reader may have to refuse; it finds the reason.
bool JsonTexts::State::read_fast(std::string_view line) {
  if (line.size() > longest_for_parser) return false;
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

JsonTexts::JsonTexts(std::vector<std::string> keys)
    : state_(std::make_unique<State>(std::move(keys))) {
  state_->texts.resize(state_->keys.size());
}

JsonTexts::~JsonTexts() = default;

const std::vector<std::vector<std::string_view>>& JsonTexts::read(std::string_view line) {
  state_->fast = state_->read_fast(line);
  return state_->fast ? state_->texts : state_->patient.read(line);
}

bool JsonTexts::repaired() const {
  return !state_->fast && state_->patient.repaired();  // the parser takes UTF-8 alone
}

}  // namespace trireme
