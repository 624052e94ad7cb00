// A tokenizer with one ID per byte, so that tests see what was encoded; 256 ends a document, 257 to
// 259 are free for other uses.
#pragma once

#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace trireme::testing_data {

class ByteTokenizer final : public Tokenizer {
 public:
  explicit ByteTokenizer(std::int32_t size = 260) {
    vocab_size_ = size;
    special_.eod = 256;
  }
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }
  std::string decode(std::span<const std::int32_t> ids, bool) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 256) text += static_cast<char>(id);
    }
    return text;
  }
  std::string token_bytes(std::int32_t) const override { return {}; }
  std::int32_t token_id(std::string_view) const override { return -1; }
};

}  // namespace trireme::testing_data
