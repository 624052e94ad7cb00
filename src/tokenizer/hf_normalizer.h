// The normalizers of a tokenizer.json.
#pragma once

#include <memory>
#include <string>

#include "tokenizer/json_place.h"

namespace trireme {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Rewrites `text`, which is and stays valid UTF-8.
  virtual void apply(std::string& text) const = 0;
};

// Makes a normalizer from its description; null makes none. Known types: Sequence, BertNormalizer,
// Prepend, Replace, Lowercase, StripAccents, Strip, NFC, NFD, NFKC, NFKD. Errors: any other type.
std::unique_ptr<Normalizer> make_normalizer(const JsonPlace& place);

}  // namespace trireme
