// Small SentencePiece models, built byte by byte, so that they can be invalid in any way.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace trireme {

inline std::string varint(std::size_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  return out + static_cast<char>(value);
}

// Returns a protocol buffer field that contains bytes.
inline std::string field(std::size_t number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
inline std::string number_field(std::size_t number, std::size_t value) {
  return varint(number << 3) + varint(value);
}

inline std::string piece(const std::string& text, float score, std::size_t type) {
  std::string bytes = field(1, text) + '\x15';
  bytes.append(reinterpret_cast<const char*>(&score), sizeof score);
  return field(1, bytes + number_field(3, type));
}

// `kind`: 1 unigram, 2 BPE, 3 words, 4 characters. `charsmap`: the normalization table.
inline std::string sentencepiece_model(std::size_t kind, const std::string& charsmap = "") {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) +
         piece("\u2581the", -1, 1) + piece("t", -2, 1) + piece("h", -2, 1) + piece("e", -3, 1) +
         piece("th", -2, 1) + piece("\u2581", -2, 1) + field(2, number_field(3, kind)) +
         field(3, field(1, "own") + (charsmap.empty() ? "" : field(2, charsmap)));
}

// Returns a table of a trie's units and the texts that its leaves point to.
inline std::string charsmap(const std::vector<std::uint32_t>& units, const std::string& texts) {
  const auto size = static_cast<std::uint32_t>(units.size() * 4);
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(reinterpret_cast<const char*>(units.data()), size);
  return out + texts;
}

// Returns the units of a trie that maps 'T' to the text at `value`.
inline std::vector<std::uint32_t> one_letter_trie(std::uint32_t value) {
  std::vector<std::uint32_t> units(512, 0x80000000u);
  units[0] = 0x100u << 10;                        // the root's children start at 0x100
  units[0x100 | 'T'] = 'T' << 10 | 1 << 8 | 'T';  // its own do too: a leaf
  units[0x100] = 0x80000000u | value;
  return units;
}

}  // namespace trireme
