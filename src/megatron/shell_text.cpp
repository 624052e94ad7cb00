// Marks of what is not known, and patterns.
#include "base/error.h"
#include "megatron/shell_expand.h"
#include "megatron/shell_lexer.h"

namespace trireme::megatron {
namespace {

constexpr auto npos = std::string_view::npos;

// Whether [set] at pattern[at] holds c; moves `at` behind it. A set that does not end is a '['.
bool in_set(std::string_view pattern, std::size_t& at, char c) {
  const std::size_t end = pattern.find(']', at + 2);
  if (end == npos) {
    ++at;
    return c == '[';
  }
  std::size_t i = at + 1;
  const bool negated = pattern[i] == '!' || pattern[i] == '^';
  if (negated) ++i;
  bool found = false;
  for (; i < end; ++i) {
    if (i + 2 < end && pattern[i + 1] == '-') {
      found = found || (pattern[i] <= c && c <= pattern[i + 2]);
      i += 2;
    } else {
      found = found || pattern[i] == c;
    }
  }
  at = end + 1;
  return found != negated;
}

// Whether one character matches the pattern's element at `at`, which moves behind it.
bool matches_one(std::string_view pattern, std::size_t& at, char c) {
  if (pattern[at] == '[') return in_set(pattern, at, c);
  const char wanted = pattern[at++];
  return wanted == '?' || wanted == c;
}

}  // namespace

void ShellState::spend(std::size_t characters) {
  if (characters > work) fail_input("{}: takes more work than any launch script does", script);
  work -= characters;
}

bool shell_match(std::string_view text, std::string_view pattern, ShellState& state) {
  state.spend((text.size() + 1) * (pattern.size() + 1));
  // Goes back to the last star only: that is enough, and takes no more than size times size.
  std::size_t t = 0, p = 0, star = npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
      continue;
    }
    std::size_t next = p;
    if (p < pattern.size() && matches_one(pattern, next, text[t])) {
      p = next;
      ++t;
    } else if (star != npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string without_unset(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == kUnset) {
      at = text.find(kMarkEnd, at);
      if (at == npos) break;
    } else {
      result += text[at];
    }
  }
  return result;
}

std::string with_null(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != kUnset && text[at] != kUnknown) {
      result += text[at];
      continue;
    }
    if (text[at] == kUnknown) result += "null";
    at = text.find(kMarkEnd, at);
    if (at == npos) break;
  }
  return result;
}

bool has_unknown(std::string_view text) {
  return text.find(kUnknown) != npos;
}

std::string without_marks(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c != kUnset && c != kUnknown && c != kMarkEnd) result += c;
  }
  return result;
}

}  // namespace trireme::megatron
