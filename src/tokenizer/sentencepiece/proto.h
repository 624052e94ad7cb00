// A SentencePiece .model file (sentencepiece_model.proto), limited to what encoding needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace trireme {

struct SentencePieceProto {
  enum class Kind { unigram = 1, bpe, word, character };
  enum class Type { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string_view text;
    float score = 0;
    Type type = Type::normal;
  };

  std::vector<Piece> pieces;
  Kind kind = Kind::unigram;
  bool byte_fallback = false;
  bool space_as_suffix = false;
  std::string_view charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
};

// Reads the file, whose bytes must outlive the result. Nothing where a field has another form than
// the format gives it, or where a part of the model appears twice: the library may still read such
// a file, but in a way that is not worth following.
std::optional<SentencePieceProto> parse_sentencepiece(std::string_view model);

// The normalization tables of a model, in order; nothing if it is recognizably no protocol buffer.
std::optional<std::vector<std::string_view>> sentencepiece_charsmaps(std::string_view model);

}  // namespace trireme
