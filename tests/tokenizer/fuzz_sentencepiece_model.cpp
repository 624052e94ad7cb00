// Fuzz target for SentencePiece models. The library that reads them is not ours: bytes are rejected
// before they can crash it, or give a tokenizer.
#include "base/file.h"
#include "fuzz/fuzz.h"
#include "tokenizer/fuzz_round_trip.h"
#include "tokenizer/sentencepiece_models.h"

namespace {

std::string golden_model() {
  return trireme::read_file(TRIREME_TESTS "/tokenizer/data/sentencepiece.model");
}

}  // namespace

using trireme::sentencepiece_model;

FUZZ_SEEDS({sentencepiece_model(1), sentencepiece_model(2), sentencepiece_model(3),
            sentencepiece_model(4), golden_model(),
            sentencepiece_model(1, trireme::charsmap(trireme::one_letter_trie(0),
                                                     std::string("t\0", 2)))})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const trireme::FuzzFile file("sentencepiece", {reinterpret_cast<const char*>(data), size});
  return trireme::fuzz_reader([&] {
    const auto tokenizer =
        trireme::make_tokenizer({.type = "sentencepiece", .model_file = file.path()});
    try_tokenizer(*tokenizer, false);
  });
}
