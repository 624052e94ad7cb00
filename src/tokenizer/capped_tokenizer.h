// A tokenizer for a model that has no rows for its last tokens, which were added after training: a
// text that spells one of them is refused.
#pragma once

#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

namespace trireme {

// Whether all of a tokenizer's tokens from `rows` on are special or added ones, which only a text
// that spells them out holds.
bool is_added_from(const Tokenizer& tokenizer, std::int64_t rows);

// Note to the user about a tokenizer with more tokens than its model, or "".
std::string tokenizer_note(const Tokenizer& tokenizer);

class CappedTokenizer : public Tokenizer {
 public:
  // `rows`: of the model, which has none for the last tokens.
  CappedTokenizer(std::unique_ptr<Tokenizer> whole, std::int32_t rows);

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void encode_document(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void encode_prompt(std::string_view text, std::vector<std::int32_t>& ids) const override;
  Encoding encode_with_special(std::string_view text,
                               std::optional<std::string_view> pair) const override;
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override;
  std::string token_bytes(std::int32_t id) const override;
  std::int32_t token_id(std::string_view bytes) const override;

  // Note to the user about it.
  std::string note() const;

 private:
  // Refuses ids from position `begin` on that the model does not have.
  void check(const std::vector<std::int32_t>& ids, std::size_t begin) const;

  std::unique_ptr<Tokenizer> whole_;
};

}  // namespace trireme
