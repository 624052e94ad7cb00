// Step by step what the library's Normalizer does, without its table of positions.
#include "tokenizer/sentencepiece/normalizer.h"

#include "tokenizer/utf8.h"

namespace trireme {

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceProto& model)
    : charsmap_(model.charsmap),
      space_(model.escape_spaces ? "\u2581" : " "),
      prefix_(model.add_dummy_prefix && !model.space_as_suffix),
      suffix_(model.add_dummy_prefix && model.space_as_suffix),
      remove_extra_(model.remove_extra_spaces) {
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceProto::Piece& piece = model.pieces[id];
    if (piece.type == SentencePieceProto::Type::user_defined) {
      user_defined_.add(piece.text, static_cast<std::int32_t>(id));
    }
  }
  for (std::size_t c = 0; c < plain_.size(); ++c) {
    const char byte = static_cast<char>(c);
    plain_[c] = !user_defined_.begins(byte) && !charsmap_.rewrites_ascii(byte);
  }
}

// Normalizes the beginning of `text`, which is not empty.
SentencePieceNormalizer::Step SentencePieceNormalizer::next(std::string_view text) const {
  if (const std::size_t length = user_defined_.longest_prefix(text).length) {
    return {text.substr(0, length), length};
  }
  if (const auto rule = charsmap_.find(text); rule.length > 0) {
    return {rule.replacement, rule.length};
  }
  const DecodedChar c = decode_utf8(text.data(), text.data() + text.size());
  if (c.valid) return {text.substr(0, c.length), c.length};
  return {"\uFFFD", 1};  // each ill-formed byte separately
}

void SentencePieceNormalizer::apply(std::string_view text, std::string& out) const {
  out.clear();
  while (remove_extra_ && !text.empty()) {
    const Step step = next(text);
    if (step.text != " ") break;
    text.remove_prefix(step.consumed);
  }
  if (text.empty()) return;
  if (prefix_) out += space_;
  bool after_space = remove_extra_;
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain < text.size() && text[plain] != ' ' && is_plain(text, plain)) ++plain;
    if (plain > 0) {
      out += text.substr(0, plain);
      text.remove_prefix(plain);
      after_space = false;
      continue;
    }
    Step step = is_plain(text, 0) ? Step{text.substr(0, 1), 1} : next(text);
    text.remove_prefix(step.consumed);
    while (after_space && step.text.starts_with(' ')) step.text.remove_prefix(1);
    if (step.text.empty()) continue;
    for (const char byte : step.text) {
      if (byte == ' ') {
        out += space_;
      } else {
        out += byte;
      }
    }
    after_space = remove_extra_ && step.text.back() == ' ';
  }
  while (remove_extra_ && out.ends_with(space_)) out.resize(out.size() - space_.size());
  if (suffix_) out += space_;
}

}  // namespace trireme
