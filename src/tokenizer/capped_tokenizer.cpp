// Passes everything on, and looks at the ids.
#include "tokenizer/capped_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizer/huggingface/tokenizer.h"

namespace trireme {

bool is_added_from(const Tokenizer& tokenizer, std::int64_t rows) {
  for (std::int64_t i = rows; i < tokenizer.vocab_size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const bool added = tokenizer.decode({&id, 1}, true).empty() || is_added_token(tokenizer, id);
    if (!added || tokenizer.token_bytes(id).empty()) return false;
  }
  return true;
}

std::string tokenizer_note(const Tokenizer& tokenizer) {
  const auto* capped = dynamic_cast<const CappedTokenizer*>(&tokenizer);
  return capped ? capped->note() : "";
}

CappedTokenizer::CappedTokenizer(std::unique_ptr<Tokenizer> whole, std::int32_t rows)
    : whole_(std::move(whole)) {
  TRIREME_CHECK(rows < whole_->vocab_size());
  vocab_size_ = rows;
  fingerprint_ = whole_->fingerprint();
  special_ = whole_->special();
  if (special_.eod >= rows) {
    fail_input(
        "the end-of-document token '{}' has the id {}, but the model has {} rows: use the "
        "tokenizer that it was trained with",
        whole_->token_bytes(special_.eod), special_.eod, rows);
  }
  for (std::int32_t* id : {&special_.bos, &special_.eos, &special_.pad, &special_.unk,
                           &special_.cls, &special_.sep, &special_.mask})
    if (*id >= rows) *id = -1;
}

void CappedTokenizer::check(const std::vector<std::int32_t>& ids, std::size_t begin) const {
  const auto beyond = std::find_if(ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end(),
                                   [&](std::int32_t id) { return id >= vocab_size_; });
  if (beyond == ids.end()) return;
  fail_input(
      "the text contains the token '{}' with the id {}, but the model has {} rows: it was added to "
      "the tokenizer after the model was trained; remove it from the text",
      whole_->token_bytes(*beyond), *beyond, vocab_size_);
}

void CappedTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::size_t begin = ids.size();
  whole_->encode(text, ids);
  check(ids, begin);
}

void CappedTokenizer::encode_document(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::size_t begin = ids.size();
  whole_->encode_document(text, ids);
  check(ids, begin);
}

void CappedTokenizer::encode_prompt(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::size_t begin = ids.size();
  whole_->encode_prompt(text, ids);
  check(ids, begin);
}

Encoding CappedTokenizer::encode_with_special(std::string_view text,
                                              std::optional<std::string_view> pair) const {
  Encoding encoding = whole_->encode_with_special(text, pair);
  check(encoding.ids, 0);
  return encoding;
}

std::string CappedTokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  for (const std::int32_t id : ids) check_id(id);
  return whole_->decode(ids, skip_special);
}

std::string CappedTokenizer::token_bytes(std::int32_t id) const {
  check_id(id);
  return whole_->token_bytes(id);
}

std::int32_t CappedTokenizer::token_id(std::string_view bytes) const {
  const std::int32_t id = whole_->token_id(bytes);
  return id < vocab_size_ ? id : -1;
}

std::string CappedTokenizer::note() const {
  const std::int32_t more = whole_->vocab_size() - vocab_size_;
  return fmt::format(
      "the tokenizer has {} that the model has no {} for ('{}'{}): text that spells {} is refused",
      more == 1 ? "a token" : fmt::format("{} tokens", more), more == 1 ? "row" : "rows",
      whole_->token_bytes(vocab_size_), more == 1 ? "" : " and on",
      more == 1 ? "it" : "one of them");
}

}  // namespace trireme
