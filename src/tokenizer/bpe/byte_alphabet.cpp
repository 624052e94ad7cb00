// The alphabet as two tables.
#include "tokenizer/bpe/byte_alphabet.h"

#include <array>

#include "tokenizer/utf8.h"

namespace trireme {
namespace {

struct Alphabet {
  std::array<char32_t, 256> spelling{};
  std::array<int, 0x144> byte{};  // -1: not in the alphabet

  Alphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (char32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);
      spelling[b] = printable ? b : next++;
      byte[spelling[b]] = static_cast<int>(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

}  // namespace

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    append_utf8(alphabet().spelling[static_cast<unsigned char>(byte)], out);
  }
  return out;
}

std::optional<std::string> unspell_bytes(std::string_view spelling) {
  std::string out;
  const char* end = spelling.data() + spelling.size();
  for (const char* p = spelling.data(); p < end;) {
    const DecodedChar c = decode_utf8(p, end);
    if (c.value >= alphabet().byte.size() || alphabet().byte[c.value] < 0) return std::nullopt;
    out.push_back(static_cast<char>(alphabet().byte[c.value]));
    p += c.length;
  }
  return out;
}

}  // namespace trireme
