// First bytes, looked at without a parser.
#include "data/documents/document_looks.h"

#include <algorithm>

#include "data/documents/byte_source.h"
#include "tokenizer/utf8.h"

namespace trireme {

std::string first_content(const std::string& file) {
  constexpr std::size_t wanted = 4096;
  std::string begin(wanted, '\0');
  const auto source = open_bytes(file);
  std::size_t have = 0;
  while (have < wanted) {
    const std::size_t n = source->read(begin.data() + have, wanted - have);
    if (n == 0) break;
    have += n;
  }
  begin.resize(have);
  return begin;
}

ContentLook look_of(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  const auto skip = [&](const char* blanks) {
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  };
  skip(" \t\r\n");
  if (text.starts_with("<doc id=")) return ContentLook::wiki_text;
  const bool object = text.starts_with('{'), list = text.starts_with('[');
  if (!object && !list) return ContentLook::other;
  text.remove_prefix(1);
  skip(" \t\r");
  if (object && (text.starts_with('"') || text.starts_with('}'))) return ContentLook::json_lines;
  skip(" \t\r\n");
  const bool json = text.starts_with('"') || (list && text.starts_with('{'));
  return json ? ContentLook::json : ContentLook::other;
}

namespace {

struct Characters {
  std::size_t controls = 0;  // that no text has
  std::size_t nuls = 0;
  std::size_t beyond_ascii = 0;  // well-formed
  std::size_t ill_formed = 0;
};

// Half of a character of UTF-16 in three bytes, as Java's and Python's writers let through: it is
// repaired.
bool is_surrogate(const char* p, const char* end) {
  return end - p >= 3 && p[0] == '\xed' && (p[1] & 0xe0) == 0xa0 && (p[2] & 0xc0) == 0x80;
}

Characters characters_of(std::string_view text) {
  Characters counts;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    if (is_surrogate(p, end)) {
      p += 3;
      continue;
    }
    const DecodedChar c = decode_utf8(p, end);
    // The last character may be cut off.
    counts.ill_formed += !c.valid && end - p >= 4;
    counts.beyond_ascii += c.valid && c.length > 1;
    counts.controls += c.value < ' ' && (c.value < '\b' || c.value > '\r') && c.value != 0x1b;
    counts.nuls += c.value == 0;
    p += c.length;
  }
  return counts;
}

}  // namespace

bool looks_binary(std::string_view text) {
  const Characters counts = characters_of(text);
  const std::size_t share = counts.ill_formed > 0 ? 50 : 5;
  return counts.nuls > 0 || (counts.controls >= 2 && share * counts.controls >= text.size());
}

bool looks_like_other_encoding(std::string_view text) {
  constexpr std::size_t some = 16;  // stray bytes are repaired
  const Characters counts = characters_of(text);
  return counts.ill_formed >= some && counts.ill_formed > counts.beyond_ascii;
}

}  // namespace trireme
