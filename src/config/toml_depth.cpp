// Counts the dots in keys; skips strings and comments.
#include "config/toml_depth.h"

#include <algorithm>
#include <cctype>

namespace trireme {
namespace {

// End of the string or comment that begins at `at`; `at` itself if there is none.
std::size_t after_text(std::string_view toml, std::size_t at) {
  const char c = toml[at];
  if (c == '#') return std::min(toml.find('\n', at), toml.size());
  if (c != '"' && c != '\'') return at;
  const std::string_view three = toml.substr(at, 3);
  const bool lines = three.size() == 3 && three[1] == c && three[2] == c;
  const std::string_view quote = lines ? three : three.substr(0, 1);
  for (std::size_t i = at + quote.size(); i < toml.size(); ++i) {
    if (!lines && toml[i] == '\n') return i;
    if (c == '"' && toml[i] == '\\')
      ++i;
    else if (toml.substr(i).starts_with(quote))
      return i + quote.size();
  }
  return toml.size();
}

}  // namespace

int line_of_deep_key(std::string_view toml) {
  int parts = 1;
  for (std::size_t i = 0; i < toml.size();) {
    if (const std::size_t after = after_text(toml, i); after > i) {
      i = after;
      continue;
    }
    const char c = toml[i++];
    const bool of_a_key = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ||
                          c == ' ' || c == '\t' || static_cast<unsigned char>(c) >= 0x80;
    if (c == '.')
      ++parts;
    else if (!of_a_key)
      parts = 1;
    if (parts > max_toml_key_parts)
      return 1 + static_cast<int>(std::count(toml.begin(), toml.begin() + i, '\n'));
  }
  return 0;
}

}  // namespace trireme
