// The normalizers of a tokenizer.json.
#pragma once

#include <memory>
#include <string>

#include "tokenizer/huggingface/text.h"
#include "tokenizer/json_place.h"

namespace trireme {

// Refuses a text that the reference would rewrite in another way than its parts say (HfText).
void check_can_rewrite(const HfText& text);

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Rewrites `text`, which is valid UTF-8 before and after.
  virtual void apply(HfText& text) const = 0;
  // Whether from_first is exact only in being 0 or not, since characters are composed or change
  // places.
  virtual bool mixes_characters() const { return false; }
};

// Makes a normalizer from its description; null makes none. Known types: Sequence, BertNormalizer,
// Prepend, Replace, Lowercase, StripAccents, Strip, ByteLevel, NFC, NFD, NFKC, NFKD. Errors: any
// other type.
std::unique_ptr<Normalizer> make_normalizer(const JsonPlace& place);

// Whether it, or a part of it, is of type ByteLevel, so that the model sees bytes that are spelled.
bool spells_bytes(const JsonPlace& normalizer);

}  // namespace trireme
