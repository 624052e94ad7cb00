// The decoders of a tokenizer.json: they make a text of tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/json_place.h"

namespace trireme {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Rewrites the list of tokens; at the end of a chain they are joined without spaces.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

// Makes a decoder from its description. Null makes one that joins tokens with spaces. For a
// `byte_level` model tokens come as the bytes that they spell. Known types: Sequence, ByteLevel,
// ByteFallback, Fuse, Metaspace, Replace, Strip, BPEDecoder, WordPiece. Errors: any other type.
std::unique_ptr<Decoder> make_decoder(const JsonPlace& place, bool byte_level);

}  // namespace trireme
