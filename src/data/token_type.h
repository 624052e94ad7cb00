// Element types of indexed token files: the codes of the .idx header (Megatron's format).
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

enum class TokenType : std::uint8_t {
  u8 = 1,
  i8 = 2,
  i16 = 3,
  i32 = 4,
  i64 = 5,
  f64 = 6,
  f32 = 7,
  u16 = 8
};

// Size of one token in bytes.
constexpr int size_of(TokenType type) {
  switch (type) {
    case TokenType::u8:
    case TokenType::i8:
      return 1;
    case TokenType::i16:
    case TokenType::u16:
      return 2;
    case TokenType::i32:
    case TokenType::f32:
      return 4;
    case TokenType::i64:
    case TokenType::f64:
      return 8;
  }
  return 0;
}

constexpr std::string_view name_of(TokenType type) {
  constexpr std::string_view names[] = {"?", "u8", "i8", "i16", "i32", "i64", "f64", "f32", "u16"};
  const int code = static_cast<int>(type);
  return names[code >= 1 && code <= 8 ? code : 0];
}

// The token type of a vocabulary of `vocab_size` ids. The limit is Megatron's, so that the files
// are the same byte for byte.
constexpr TokenType token_type_for(std::int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::u16 : TokenType::i32;
}

}  // namespace trireme
