// The classes of characters that the pre-tokenizer patterns of GPT-2, cl100k and Llama 3 tell
// apart.
#pragma once

#include <array>
#include <cstdint>

#include "tokenizer/utf8.h"

namespace trireme {

// \p{L}, \p{N}, \p{White_Space} and the rest.
enum class CharClass : std::uint8_t { other, letter, number, space };

using CharClasses = std::array<CharClass, 0x110000>;

// Class of every code point, filled once at the first use from generated ranges (Unicode 16).
const CharClasses& char_classes();

struct ClassedChar {
  CharClass cls;
  std::uint32_t length;  // bytes
};

// Class and length of the first character of [p, end), which is not empty; an ill-formed subpart
// counts as one U+FFFD, that is `other`.
inline ClassedChar classify(const CharClasses& classes, const char* p, const char* end) {
  const auto lead = static_cast<unsigned char>(*p);
  if (lead < 0x80) return {classes[lead], 1};
  const DecodedChar c = decode_utf8(p, end);
  return {classes[c.value], c.length};
}

}  // namespace trireme
