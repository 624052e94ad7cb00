// The patterns of a tokenizer.json: {"String": "..."} or {"Regex": "..."}, or a kind of character.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/huggingface/text.h"
#include "tokenizer/json_place.h"
#include "tokenizer/patterns/regex.h"

namespace trireme {

class HfPattern {
 public:
  explicit HfPattern(const JsonPlace& place);
  // A regular expression of our own; `where` names it in messages.
  HfPattern(const std::string& regex, const std::string& where) : regex_(Regex(regex, where)) {}
  // A text that is not empty.
  static HfPattern literal(std::string text);
  // Each single character for which `matches` holds.
  explicit HfPattern(bool (*matches)(char32_t)) : character_(matches) {}

  // Calls emit(begin, end, matches) for every match and every stretch between matches that is not
  // empty, in order; together they are all of `text`, which is valid UTF-8. Matches may be empty.
  void cut(std::string_view text,
           const std::function<void(std::size_t, std::size_t, bool)>& emit) const;

  void replace(HfText& text, std::string_view content) const;

 private:
  HfPattern() = default;
  void for_each_match(std::string_view text, const Regex::OnMatch& on_match) const;

  std::string literal_;
  std::optional<Regex> regex_;
  bool (*character_)(char32_t) = nullptr;
};

}  // namespace trireme
