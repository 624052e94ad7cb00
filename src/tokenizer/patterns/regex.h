// Regular expressions of tokenizer files, with the meaning that the engine of the reference library
// gives them: Oniguruma, with its own syntax. Most are matched by a PatternScanner, which is many
// times faster; Oniguruma says which characters belong to their classes, and matches the others.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/patterns/pattern_scanner.h"

namespace trireme {

// The meaning of \w in the Rust parts of the reference library, as the inside of a bracket.
inline constexpr const char* kWordCharacters = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control})";

class Regex {
 public:
  // Errors: a pattern that does not compile, or that is not certain to mean the same as in the
  // reference library, is bad input; `where` names its origin.
  Regex(const std::string& pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  using OnMatch = std::function<void(std::size_t begin, std::size_t end)>;

  bool has_scanner() const { return scanner_ != nullptr; }

  // Calls on_match for all matches in `text`, valid UTF-8, from left to right. An empty match
  // counts unless it lies at the end of the match before it. Errors: a text for which the pattern
  // takes too many steps is bad input, so the time is bounded; so is one with characters that are
  // younger than Unicode 14, if the pattern leaves open whether it matches them.
  template <class Function>
  void for_each_match(std::string_view text, Function&& on_match) const {
    const std::size_t from = scanner_ ? scanner_->for_each_match(text, on_match) : 0;
    if (!scanner_ || from < text.size()) search(text, from, on_match);
  }

  // The same with Oniguruma alone, for matches that begin at `from` or later; with the text before
  // that in view.
  void search(std::string_view text, std::size_t from, const OnMatch& on_match) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
  std::unique_ptr<const PatternScanner> scanner_;
};

}  // namespace trireme
