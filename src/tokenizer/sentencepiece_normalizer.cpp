// Step by step what the library's Normalizer does, without its table of positions.
#include "tokenizer/sentencepiece_normalizer.h"

#include "tokenizer/utf8.h"

namespace trireme {

void PrefixSet::add(std::string_view text) {
  if (text.empty()) return;
  begins_[static_cast<unsigned char>(text.front())] = true;
  std::uint32_t at = 0;
  Node* last = nullptr;
  for (const char byte : text) {
    const auto number = static_cast<std::uint32_t>(nodes_.size() + 1);
    last = &nodes_.try_emplace(key(at, byte), Node{.number = number}).first->second;
    at = last->number;
  }
  last->ends = true;
}

std::size_t PrefixSet::longest_prefix(std::string_view text) const {
  if (text.empty() || !begins_[static_cast<unsigned char>(text.front())]) return 0;
  std::size_t longest = 0;
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto found = nodes_.find(key(at, text[i]));
    if (found == nodes_.end()) break;
    at = found->second.number;
    if (found->second.ends) longest = i + 1;
  }
  return longest;
}

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceProto& model)
    : charsmap_(model.charsmap),
      space_(model.escape_spaces ? "\u2581" : " "),
      prefix_(model.add_dummy_prefix && !model.space_as_suffix),
      suffix_(model.add_dummy_prefix && model.space_as_suffix),
      remove_extra_(model.remove_extra_spaces) {
  for (const SentencePieceProto::Piece& piece : model.pieces) {
    if (piece.type == SentencePieceProto::Type::user_defined) user_defined_.add(piece.text);
  }
}

// What the beginning of `text`, which is not empty, becomes.
SentencePieceNormalizer::Step SentencePieceNormalizer::next(std::string_view text) const {
  if (const std::size_t length = user_defined_.longest_prefix(text)) {
    return {text.substr(0, length), length};
  }
  if (const auto rule = charsmap_.find(text); rule.length > 0) {
    return {rule.replacement, rule.length};
  }
  const DecodedChar c = decode_utf8(text.data(), text.data() + text.size());
  if (c.valid) return {text.substr(0, c.length), c.length};
  return {"\uFFFD", 1};  // each ill-formed byte by itself
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
    Step step = next(text);
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
