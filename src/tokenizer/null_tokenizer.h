// Null tokenizer: input is already token ids, in decimal with spaces between them (Megatron's
// NullTokenizer).
#pragma once

#include "tokenizer/tokenizer.h"

namespace trireme {

class NullTokenizer : public Tokenizer {
 public:
  // Ids 0 .. vocab_size-1, and EOD as one more.
  explicit NullTokenizer(std::int64_t vocab_size);

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override;
  std::string token_bytes(std::int32_t id) const override;
  std::int32_t token_id(std::string_view bytes) const override;
};

}  // namespace trireme
