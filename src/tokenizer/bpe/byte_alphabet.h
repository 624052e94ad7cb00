// GPT-2's spelling of bytes as printable characters, which vocab.json, merges.txt and
// tokenizer.json use: printable Latin-1 maps to itself, every other byte to U+0100 and up ("Ġ" is
// the space).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// The spelling of `bytes`.
std::string spell_bytes(std::string_view bytes);

// The bytes of a spelling; nothing where a character is outside the alphabet.
std::optional<std::string> unspell_bytes(std::string_view spelling);

}  // namespace trireme
