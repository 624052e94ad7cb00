// Ids in, ids out.
#include "tokenizer/null_tokenizer.h"

#include <charconv>

#include "base/error.h"
#include "tokenizer/fingerprint.h"

namespace trireme {

NullTokenizer::NullTokenizer(std::int64_t vocab_size) {
  if (vocab_size < 1 || vocab_size >= std::int64_t{1} << 30) {
    fail_input(
        "the null tokenizer requires a vocabulary size from 1 to 2^30 (--vocab-size), not {}",
        vocab_size);
  }
  special_.eod = static_cast<std::int32_t>(vocab_size);
  vocab_size_ = special_.eod + 1;
  fingerprint_ = Fingerprint("null").add(static_cast<std::uint64_t>(vocab_size)).digest();
}

std::int32_t NullTokenizer::token_id(std::string_view bytes) const {
  std::int32_t id = -1;
  const auto [stop, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), id);
  const bool whole = error == std::errc() && stop == bytes.data() + bytes.size();
  return whole && id >= 0 && id < vocab_size_ ? id : -1;
}

void NullTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  while (!text.empty()) {
    const std::size_t stop = std::min(text.find_first_of(" \t\r\n"), text.size());
    if (stop > 0) {
      const std::string_view word = text.substr(0, stop);
      const std::int32_t id = token_id(word);
      if (id < 0) {
        fail_input("'{}' is not an id from 0 to {}; the null tokenizer accepts only ids", word,
                   vocab_size_ - 1);
      }
      ids.push_back(id);
    }
    text.remove_prefix(std::min(stop + 1, text.size()));
  }
}

std::string NullTokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string out;
  for (const std::int32_t id : ids) {
    check_id(id);
    if (skip_special && id == special_.eod) continue;
    if (!out.empty()) out.push_back(' ');
    out += std::to_string(id);
  }
  return out;
}

std::string NullTokenizer::token_bytes(std::int32_t id) const {
  check_id(id);
  return std::to_string(id);
}

}  // namespace trireme
