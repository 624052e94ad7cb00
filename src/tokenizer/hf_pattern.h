// The patterns of a tokenizer.json: {"String": "..."} or {"Regex": "..."}.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/json_place.h"
#include "tokenizer/regex.h"

namespace trireme {

class HfPattern {
 public:
  explicit HfPattern(const JsonPlace& place);
  // A regular expression of our own; `where` names it in messages.
  HfPattern(const std::string& regex, const std::string& where) : regex_(Regex(regex, where)) {}

  // Calls emit(begin, end, matches) for every match and every stretch between matches, in order;
  // together they are all of `text`, which is valid UTF-8. Empty matches are passed over.
  void cut(std::string_view text,
           const std::function<void(std::size_t, std::size_t, bool)>& emit) const;

  std::string replace(std::string_view text, std::string_view content) const;

 private:
  std::optional<Regex::Match> find(std::string_view text, std::size_t from) const;

  std::string literal_;
  std::optional<Regex> regex_;
};

}  // namespace trireme
