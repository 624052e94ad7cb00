// Regular expressions for the pre-tokenizers and normalizers that have no hand-written form: PCRE2,
// compiled to machine code, with the Unicode meaning that tokenizer libraries give to \s and \d.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// What \w means to the regular expressions of tokenizer libraries, as the inside of a bracket.
inline constexpr const char* kWordCharacters = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D})";

class Regex {
 public:
  // Errors: a pattern that does not compile is bad input; `where` names its origin.
  Regex(const std::string& pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  struct Match {
    std::size_t begin;
    std::size_t end;
  };

  // The first match in `text` (valid UTF-8) at or after `from`. Errors: a pattern that exceeds
  // PCRE2's limits on backtracking is bad input; it does not run for ever.
  std::optional<Match> find(std::string_view text, std::size_t from) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace trireme
