// The ids of a SentencePiece text, with those of characters that no piece covers.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/sentencepiece/proto.h"

namespace trireme {

// What a model has for characters that it does not know.
struct SentencePieceFallback {
  std::int32_t unknown = -1;
  bool has_bytes = false;
  std::array<std::int32_t, 256> bytes{};  // ids of byte pieces; -1: none

  explicit SentencePieceFallback(const SentencePieceProto& model) : has_bytes(model.byte_fallback) {
    using Type = SentencePieceProto::Type;
    bytes.fill(-1);
    for (std::size_t id = 0; id < model.pieces.size(); ++id) {
      if (model.pieces[id].type == Type::unknown) unknown = static_cast<std::int32_t>(id);
      if (model.pieces[id].type != Type::byte) continue;
      for (std::size_t b = 0; b < bytes.size(); ++b) {
        if (model.pieces[id].text == fmt::format("<0x{:02X}>", b))
          bytes[b] = static_cast<std::int32_t>(id);
      }
    }
  }
};

// Collects ids; of neighboring unknown characters only the first counts.
class SentencePieceOutput {
 public:
  SentencePieceOutput(std::vector<std::int32_t>& ids, const SentencePieceFallback& fallback)
      : ids_(ids), fallback_(fallback) {}

  void add(std::int32_t id) {
    if (id != fallback_.unknown || !after_unknown_) ids_.push_back(id);
    after_unknown_ = id == fallback_.unknown;
  }
  void add_unknown(std::string_view character) {
    if (!fallback_.has_bytes) return add(fallback_.unknown);
    for (const char byte : character) add(fallback_.bytes[static_cast<unsigned char>(byte)]);
  }

 private:
  std::vector<std::int32_t>& ids_;
  const SentencePieceFallback& fallback_;
  bool after_unknown_ = false;
};

}  // namespace trireme
