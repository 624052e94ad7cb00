// Identifies patterns that certainly mean the same to Debian's Oniguruma 6.9.8 as to 6.9.10, which
// is built into the reference library.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

struct RegexSyntax {
  // The pattern in a form that both versions read alike.
  std::string pattern;
  // Characters beyond ASCII that the pattern names, and all that may be ranges, from first to last.
  std::vector<char32_t> named;
  std::vector<std::pair<char32_t, char32_t>> ranges;
  // Whether it looks at more of a character than its kind: back-references, text segments,
  // properties for which there are no fallbacks.
  bool looks_closer = false;
};

// Errors: bad input where a construct changed its meaning between the versions. `where` names the
// pattern's origin.
RegexSyntax read_regex_syntax(std::string_view pattern, const std::string& where);

}  // namespace trireme
