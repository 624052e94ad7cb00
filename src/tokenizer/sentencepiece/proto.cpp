// A small reader of protocol buffers, and the fields of the model.
#include "tokenizer/sentencepiece/proto.h"

#include <cstring>

namespace trireme {
namespace {

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

enum Wire : std::uint8_t { varint = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };

struct Field {
  std::uint64_t number;
  std::uint64_t wire;
  std::uint64_t value = 0;  // of a varint
  std::string_view bytes;   // of all others

  bool is_text() const { return wire == length_delimited; }
};

// Calls on_field(field) for each field; false if that or the form of a field says so.
template <class OnField>
bool for_each_field(std::string_view bytes, OnField&& on_field) {
  while (!bytes.empty()) {
    std::uint64_t tag = 0, size = 0;
    if (!read_varint(bytes, tag)) return false;
    Field field{.number = tag >> 3, .wire = tag & 7};
    switch (field.wire) {
      case varint:
        if (!read_varint(bytes, field.value)) return false;
        break;
      case fixed64:
        size = 8;
        break;
      case length_delimited:
        if (!read_varint(bytes, size)) return false;
        break;
      case fixed32:
        size = 4;
        break;
      default:
        return false;
    }
    if (size > bytes.size()) return false;
    field.bytes = bytes.substr(0, size);
    bytes.remove_prefix(size);
    if (!on_field(field)) return false;
  }
  return true;
}

bool set_flag(const Field& field, bool& flag) {
  flag = field.value != 0;
  return field.wire == varint;
}

// Sets an enumeration whose values are 1 to `last`.
template <class Enum>
bool set_enum(const Field& field, Enum last, Enum& value) {
  value = static_cast<Enum>(field.value);
  return field.wire == varint && field.value >= 1 &&
         field.value <= static_cast<std::uint64_t>(last);
}

bool parse_piece(std::string_view bytes, SentencePieceProto::Piece& piece) {
  return for_each_field(bytes, [&](const Field& field) {
    switch (field.number) {
      case 1:
        piece.text = field.bytes;
        return field.is_text();
      case 2:
        if (field.wire != fixed32) return false;
        std::memcpy(&piece.score, field.bytes.data(), sizeof piece.score);
        return true;
      case 3:
        return set_enum(field, SentencePieceProto::Type::byte, piece.type);
      default:
        return true;
    }
  });
}

bool parse_trainer(std::string_view bytes, SentencePieceProto& model) {
  return for_each_field(bytes, [&](const Field& field) {
    switch (field.number) {
      case 3:
        return set_enum(field, SentencePieceProto::Kind::character, model.kind);
      case 24:
        return set_flag(field, model.space_as_suffix);
      case 35:
        return set_flag(field, model.byte_fallback);
      default:
        return true;
    }
  });
}

bool parse_normalizer(std::string_view bytes, SentencePieceProto& model) {
  return for_each_field(bytes, [&](const Field& field) {
    switch (field.number) {
      case 2:
        model.charsmap = field.bytes;
        return field.is_text();
      case 3:
        return set_flag(field, model.add_dummy_prefix);
      case 4:
        return set_flag(field, model.remove_extra_spaces);
      case 5:
        return set_flag(field, model.escape_spaces);
      default:
        return true;
    }
  });
}

// Fields of the model itself.
constexpr std::uint64_t pieces_field = 1, trainer_field = 2, normalizer_field = 3,
                        denormalizer_field = 5;

}  // namespace

std::optional<SentencePieceProto> parse_sentencepiece(std::string_view bytes) {
  SentencePieceProto model;
  int trainers = 0, normalizers = 0;
  const bool sound = for_each_field(bytes, [&](const Field& field) {
    if (field.number >= pieces_field && field.number <= normalizer_field && !field.is_text()) {
      return false;
    }
    switch (field.number) {
      case pieces_field:
        return parse_piece(field.bytes, model.pieces.emplace_back());
      case trainer_field:
        return ++trainers == 1 && parse_trainer(field.bytes, model);
      case normalizer_field:
        return ++normalizers == 1 && parse_normalizer(field.bytes, model);
      default:
        return true;
    }
  });
  if (!sound) return std::nullopt;
  return model;
}

std::optional<std::vector<std::string_view>> sentencepiece_charsmaps(std::string_view model) {
  constexpr std::uint64_t charsmap_field = 2;
  std::vector<std::string_view> tables;
  const bool sound = for_each_field(model, [&](const Field& spec) {
    if (spec.number != normalizer_field && spec.number != denormalizer_field) return true;
    if (!spec.is_text()) return true;
    return for_each_field(spec.bytes, [&](const Field& field) {
      if (field.number == charsmap_field && field.is_text()) tables.push_back(field.bytes);
      return true;
    });
  });
  if (!sound) return std::nullopt;
  return tables;
}

}  // namespace trireme
