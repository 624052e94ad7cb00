// Decodes UTF-8 and replaces control characters one character at a time.
#include "base/printable.h"

#include <cstdint>

namespace trireme {
namespace {

struct Character {
  std::uint32_t value = 0;
  std::size_t bytes = 0;  // 0: invalid
};

// Decodes the first UTF-8 character; surrogates and overlong encodings are invalid.
Character first_character(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (bytes == 0 || first > 0xF4 || text.size() < bytes) return {};
  std::uint32_t value = first & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (at(i) & 0x3Fu);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < least[bytes] || value > 0x10FFFF || is_surrogate) return {};
  return {value, bytes};
}

bool steers(std::uint32_t c) {
  const auto between = [c](std::uint32_t low, std::uint32_t high) { return c >= low && c <= high; };
  return c < 0x20 || between(0x7F, 0x9F) || between(0x200E, 0x200F) || between(0x2028, 0x202E) ||
         between(0x2066, 0x2069) || c == 0xFEFF;
}

// Removes the first character from the text and appends its printable form.
void move_character(std::string_view& text, bool keeps_lines, std::string& out) {
  const Character c = first_character(text);
  const bool is_line = c.value == '\n' || c.value == '\t';
  const bool shown = c.bytes > 0 && (!steers(c.value) || (keeps_lines && is_line));
  const std::size_t bytes = c.bytes > 0 ? c.bytes : 1;
  if (shown)
    out += text.substr(0, bytes);
  else
    out += '?';
  text.remove_prefix(bytes);
}

}  // namespace

std::string printable(std::string_view text, std::size_t longest) {
  std::string out;
  while (!text.empty()) {
    const std::size_t before = out.size();
    move_character(text, false, out);
    if (out.size() <= longest) continue;
    out.resize(before);
    return out + "...";
  }
  return out;
}

std::string printable_message(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) move_character(text, true, out);
  return out;
}

}  // namespace trireme
