// Walks through the protocol buffer to the tables, and through each table's trie.
// Formats: sentencepiece_model.proto; darts-clone's double array.
#include "tokenizer/sentencepiece_check.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace trireme {
namespace {

// Real tables have a quarter of a megabyte.
constexpr std::size_t kLargestTable = std::size_t{1} << 22;

bool read_varint(std::string_view& bytes, std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Calls on_bytes(field, content) for each field that holds bytes; false where that or the form of a
// field says so.
template <class OnBytes>
bool for_each_field(std::string_view bytes, OnBytes&& on_bytes) {
  while (!bytes.empty()) {
    std::uint64_t tag = 0, size = 0;
    if (!read_varint(bytes, tag)) return false;
    switch (tag & 7) {
      case 0:
        if (!read_varint(bytes, size)) return false;
        size = 0;
        break;
      case 1:
        size = 8;
        break;
      case 2:
        if (!read_varint(bytes, size)) return false;
        break;
      case 5:
        size = 4;
        break;
      default:
        return false;
    }
    if (size > bytes.size()) return false;
    if ((tag & 7) == 2 && !on_bytes(tag >> 3, bytes.substr(0, size))) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

// A unit of the double array.
struct Unit {
  std::uint32_t bits;
  std::uint32_t offset() const { return bits >> 10 << ((bits & 1u << 9) >> 6); }
  std::uint32_t label() const { return bits & (1u << 31 | 0xFF); }
  std::uint32_t value() const { return bits & ~(1u << 31); }
  bool has_leaf() const { return bits >> 8 & 1; }
};

// Goes wherever some text can lead; `texts` is what the leaves' values point into.
bool is_sound_trie(const std::vector<Unit>& units, std::string_view texts) {
  if (units.empty()) return false;
  std::vector<bool> seen(units.size());
  std::vector<std::uint32_t> open{0};
  seen[0] = true;
  while (!open.empty()) {
    const std::uint32_t place = open.back();
    open.pop_back();
    const std::uint32_t base = place ^ units[place].offset();
    if ((base | 0xFF) >= units.size()) return false;
    if (place != 0 && units[place].has_leaf() && units[base].value() >= texts.size()) return false;
    for (std::uint32_t c = 0; c < 256; ++c) {
      const std::uint32_t child = base ^ c;
      if (units[child].label() != c || seen[child]) continue;
      seen[child] = true;
      open.push_back(child);
    }
  }
  return true;
}

// The size of the trie, the trie, and texts that end with 0 each.
bool is_sound_charsmap(std::string_view table) {
  std::uint32_t size = 0;
  if (table.empty()) return true;
  if (table.size() > kLargestTable || table.size() <= sizeof size || table.back() != '\0') {
    return false;
  }
  std::memcpy(&size, table.data(), sizeof size);
  table.remove_prefix(sizeof size);
  if (size >= table.size() || size % sizeof(Unit) != 0) return false;
  std::vector<Unit> units(size / sizeof(Unit));
  if (!units.empty()) std::memcpy(units.data(), table.data(), size);
  return is_sound_trie(units, table.substr(size));
}

}  // namespace

bool has_sound_charsmaps(std::string_view model) {
  constexpr std::uint64_t normalizer = 3, denormalizer = 5, charsmap = 2;
  return for_each_field(model, [&](std::uint64_t field, std::string_view spec) {
    if (field != normalizer && field != denormalizer) return true;
    return for_each_field(spec, [&](std::uint64_t inner, std::string_view table) {
      return inner != charsmap || is_sound_charsmap(table);
    });
  });
}

}  // namespace trireme
