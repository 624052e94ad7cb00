// The byte-level tokenizer: added tokens are cut out, the rest goes through byte-level BPE.
#include "tokenizer/bpe/byte_level.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace trireme {

ByteLevelTokenizer::ByteLevelTokenizer(ByteLevelParts parts)
    : bpe_(std::move(parts.bpe)),
      pattern_(parts.pattern),
      regex_(std::move(parts.regex)),
      nfc_(parts.nfc),
      added_(std::move(parts.added)),
      special_text_(parts.special_text),
      prefix_(parts.prefix) {
  vocab_size_ = bpe_.vocabulary().size();
  for (const AddedToken& token : added_.tokens()) vocab_size_ = std::max(vocab_size_, token.id + 1);
  added_by_id_.assign(static_cast<std::size_t>(vocab_size_), -1);
  for (std::size_t i = 0; i < added_.tokens().size(); ++i) {
    added_by_id_[static_cast<std::size_t>(added_.tokens()[i].id)] = static_cast<std::int32_t>(i);
  }
  special_ = parts.special;
  fingerprint_ = parts.fingerprint;
}

void ByteLevelTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::string own;
  if ((regex_ || nfc_) && !is_valid_utf8(text)) {
    own = to_valid_utf8(text);
    text = own;
  }
  if (nfc_) {
    std::string composed;
    append_normal_form(NormalForm::nfc, text, composed);
    own.swap(composed);
    text = own;
  }
  if (!special_text_) return encode_plain(text, ids);
  added_.cut(
      text, [&](std::string_view stretch) { encode_plain(stretch, ids); },
      [&](const AddedToken& token) { ids.push_back(token.id); });
}

void ByteLevelTokenizer::encode_plain(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (regex_) return bpe_.encode({&*regex_, 1}, text, ids);
  bpe_.encode(pattern_, text, ids);
}

Encoding ByteLevelTokenizer::encode_with_special(std::string_view text,
                                                 std::optional<std::string_view> pair) const {
  Encoding out;
  const auto append = [&](std::string_view part, std::int32_t type) {
    if (prefix_ >= 0) out.ids.push_back(prefix_);
    encode(part, out.ids);
    out.type_ids.resize(out.ids.size(), type);
  };
  append(text, 0);
  if (pair) append(*pair, 1);
  return out;
}

const AddedToken* ByteLevelTokenizer::added_token(std::int32_t id) const {
  const std::int32_t index = added_by_id_[static_cast<std::size_t>(id)];
  return index < 0 ? nullptr : &added_.tokens()[static_cast<std::size_t>(index)];
}

std::string ByteLevelTokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string out;
  for (const std::int32_t id : ids) {
    check_id(id);
    if (const AddedToken* token = added_token(id)) {
      if (!skip_special || !token->special) out += token->content;
    } else if (bpe_.vocabulary().has(id)) {
      out += bpe_.vocabulary().bytes(id);
    } else {
      fail_input("token id {} is not assigned in the vocabulary", id);
    }
  }
  return out;
}

std::string ByteLevelTokenizer::token_bytes(std::int32_t id) const {
  return decode({&id, 1}, false);
}

std::int32_t ByteLevelTokenizer::token_id(std::string_view bytes) const {
  for (const AddedToken& token : added_.tokens()) {
    if (token.content == bytes) return token.id;
  }
  return bpe_.vocabulary().find(bytes);
}

}  // namespace trireme
