// Random texts for differential tests: mixes characters that pre-tokenizers and normalizers
// distinguish, so that every boundary between them occurs.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "tokenizer/utf8.h"

namespace trireme {

class RandomText {
 public:
  explicit RandomText(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return random_() % n; }

  // Returns a text of up to `most` characters.
  std::string next(std::size_t most) {
    std::string text;
    const std::size_t kinds = 1 + below(8);  // few kinds in a text give long runs
    for (std::size_t left = below(most + 1); left > 0; --left) append(below(kinds), text);
    return text;
  }

  // Returns ASCII text of up to `most` characters of a few kinds, now and then with one that is not
  // ASCII.
  std::string ascii(std::size_t most) {
    static constexpr std::string_view kKinds[] = {" ",    "  \t\x0B", "\n",      "\r\n",
                                                  "aZ",   "stdmSTDM", "rvlREVL", "eE",
                                                  "0179", "'",        "/",       ".,-_(<|\x7F"};
    std::string_view kinds[4];
    for (std::string_view& kind : kinds) kind = kKinds[below(std::size(kKinds))];
    const std::size_t strange = below(3) == 0 ? 30 : 1'000'000;
    std::string text;
    for (std::size_t left = below(most + 1); left > 0; --left) {
      const std::string_view kind = kinds[below(1 + below(std::size(kinds)))];
      if (below(strange) == 0) append(below(3), text);
      text += kind[below(kind.size())];
    }
    return text;
  }

  std::string bytes(std::size_t count) {
    std::string out(count, '\0');
    for (char& byte : out) byte = static_cast<char>(random_());
    return out;
  }

 private:
  void append(std::size_t kind, std::string& text) {
    static constexpr char32_t kSpaces[] = {' ',  ' ',    '\n',   '\r',   '\t',   0x0B,  0x85,
                                           0xA0, 0x2028, 0x3000, 0x180E, 0x200B, 0x1680};
    static constexpr char32_t kLatin[] = {'a', 's', 'S', 0x17F, 'r',   'e',  'V',   'l',    'L',
                                          'd', 'm', 't', 0xDF,  0x130, 0xE9, 0x301, 0x212A, 'Z'};
    static constexpr char32_t kOther[] = {'\'', '\'', '.',    '!',  '-',     '_',    '<',
                                          '|',  0,    0x2019, 0xB0, 0x1F44D, 0x200D, 0xFFFD};
    static constexpr char32_t kNumbers[] = {'0', '1', '7', 0xB2, 0x967, 0x2167, 0x1D7D9, 0xBD};
    switch (kind) {
      case 0:
        return append_utf8(kLatin[below(std::size(kLatin))], text);
      case 1:
        return append_utf8(kSpaces[below(std::size(kSpaces))], text);
      case 2:
        return append_utf8(kOther[below(std::size(kOther))], text);
      case 3:
        return append_utf8(kNumbers[below(std::size(kNumbers))], text);
      case 4:
        return append_utf8(static_cast<char32_t>(below(0x80)), text);
      case 5:
        return append_utf8(static_cast<char32_t>(below(0x600)), text);
      case 6:
        return append_utf8(static_cast<char32_t>(0x4E00 + below(0x100)), text);
      default: {
        const auto c = static_cast<char32_t>(below(0x110000));
        append_utf8(c >= 0xD800 && c < 0xE000 ? kReplacement : c, text);
      }
    }
  }

  std::mt19937_64 random_;
};

}  // namespace trireme
