// The form of the table: the size of the trie in bytes, the trie (a double array of darts-clone),
// replacements that end with a zero byte each.
#include "tokenizer/sentencepiece/charsmap.h"

#include <cstring>

namespace trireme {
namespace {

// Real tables have a quarter of a megabyte.
constexpr std::size_t kLargestTable = std::size_t{1} << 22;

// A unit of the double array.
struct Unit {
  std::uint32_t bits;
  std::uint32_t offset() const { return bits >> 10 << ((bits & 1u << 9) >> 6); }
  std::uint32_t label() const { return bits & (1u << 31 | 0xFF); }
  std::uint32_t value() const { return bits & ~(1u << 31); }
  bool has_leaf() const { return bits >> 8 & 1; }
};

// Follows every path that some text can take.
bool is_sound_trie(const std::vector<std::uint32_t>& units, std::size_t replacement_bytes) {
  if (units.empty()) return false;
  std::vector<bool> seen(units.size());
  std::vector<std::uint32_t> open{0};
  seen[0] = true;
  while (!open.empty()) {
    const std::uint32_t place = open.back();
    open.pop_back();
    const Unit unit{units[place]};
    const std::uint32_t base = place ^ unit.offset();
    if ((base | 0xFF) >= units.size()) return false;
    if (place != 0 && unit.has_leaf() && Unit{units[base]}.value() >= replacement_bytes) {
      return false;
    }
    for (std::uint32_t c = 0; c < 256; ++c) {
      const std::uint32_t child = base ^ c;
      if (Unit{units[child]}.label() != c || seen[child]) continue;
      seen[child] = true;
      open.push_back(child);
    }
  }
  return true;
}

// The parts of a table; false where they do not fit.
bool take_apart(std::string_view table, std::vector<std::uint32_t>& units,
                std::string_view& replacements) {
  std::uint32_t size = 0;
  if (table.size() > kLargestTable || table.size() <= sizeof size || table.back() != '\0') {
    return false;
  }
  std::memcpy(&size, table.data(), sizeof size);
  table.remove_prefix(sizeof size);
  if (size >= table.size() || size % sizeof(std::uint32_t) != 0) return false;
  units.resize(size / sizeof(std::uint32_t));
  if (!units.empty()) std::memcpy(units.data(), table.data(), size);
  replacements = table.substr(size);
  return true;
}

}  // namespace

bool SentencePieceCharsmap::is_sound(std::string_view table) {
  std::vector<std::uint32_t> units;
  std::string_view replacements;
  return table.empty() ||
         (take_apart(table, units, replacements) && is_sound_trie(units, replacements.size()));
}

SentencePieceCharsmap::SentencePieceCharsmap(std::string_view table) {
  if (!table.empty()) take_apart(table, units_, replacements_);
}

SentencePieceCharsmap::Rule SentencePieceCharsmap::find(std::string_view text) const {
  Rule rule;
  if (units_.empty()) return rule;
  std::uint32_t place = Unit{units_[0]}.offset();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    place ^= byte;
    const Unit unit{units_[place]};
    if (unit.label() != byte) break;
    place ^= unit.offset();
    if (unit.has_leaf()) {
      rule.length = i + 1;
      rule.replacement = replacements_.data() + Unit{units_[place]}.value();
    }
  }
  return rule;
}

bool SentencePieceCharsmap::rewrites_ascii(char c) const {
  if (units_.empty()) return false;
  const auto first = static_cast<unsigned char>(c);
  std::uint32_t place = Unit{units_[0]}.offset() ^ first;
  const Unit unit{units_[place]};
  if (unit.label() != first) return false;
  if (unit.has_leaf()) return true;
  place ^= unit.offset();
  for (std::uint32_t second = 1; second < 128; ++second) {
    if (Unit{units_[place ^ second]}.label() == second) return true;
  }
  return false;
}

}  // namespace trireme
