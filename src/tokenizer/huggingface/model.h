// The models of a tokenizer.json: what turns a piece of text into ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/byte_bpe.h"
#include "tokenizer/json_place.h"
#include "tokenizer/vocabulary.h"

namespace trireme {

class HfModel {
 public:
  virtual ~HfModel() = default;
  // Appends the ids of one piece, which is not empty.
  virtual void encode(std::string_view piece, std::vector<std::int32_t>& ids) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  // The id of a token as the file spells it, or -1.
  virtual std::int32_t id_of_spelling(std::string_view token) const {
    return vocabulary().find(token);
  }
  // The id of unknown text, or -1.
  virtual std::int32_t unknown() const { return -1; }
  // The byte-level BPE inside, if it is one.
  virtual const ByteBpe* byte_bpe() const { return nullptr; }
};

// The number of ids that `tokens` tokens may span: some vocabularies have holes, but memory must
// not depend on a single number in a file.
constexpr std::size_t most_ids(std::size_t tokens) {
  return 65536 + 16 * tokens;
}

// Whether the model is a BPE that can work on the bytes of a text whose spelling (byte_alphabet.h)
// the reference would give it: without affixes, and with nothing to put in place of a byte that is
// not in the vocabulary.
bool can_work_on_bytes(const JsonPlace& model);

// BPE, WordPiece or WordLevel. Where "type" is absent the other fields tell, as in the reference.
// In a `byte_level` model the tokens spell bytes. Errors: an unknown type, vocabulary and merges
// that contradict each other, an id that two tokens have.
std::unique_ptr<HfModel> make_hf_model(const JsonPlace& place, bool byte_level);

}  // namespace trireme
