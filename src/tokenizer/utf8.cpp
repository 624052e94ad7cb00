// UTF-8 that is not needed in inner loops.
#include "tokenizer/utf8.h"

namespace trireme {

void append_utf8(char32_t value, std::string& out) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0 | value >> 6);
    put(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    put(0xE0 | value >> 12);
    put(0x80 | (value >> 6 & 0x3F));
    put(0x80 | (value & 0x3F));
  } else {
    put(0xF0 | value >> 18);
    put(0x80 | (value >> 12 & 0x3F));
    put(0x80 | (value >> 6 & 0x3F));
    put(0x80 | (value & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) {
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    p += ascii_prefix(p, end);
    if (p == end) break;
    const DecodedChar c = decode_utf8(p, end);
    if (!c.valid) return false;
    p += c.length;
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const DecodedChar c = decode_utf8(p, end);
    if (c.valid) {
      out.append(p, c.length);
    } else {
      append_utf8(kReplacement, out);
    }
    p += c.length;
  }
  return out;
}

}  // namespace trireme
