// Fuzz target for BERT's vocab.txt.
#include "fuzz/fuzz.h"
#include "tokenizer/fuzz_round_trip.h"

FUZZ_SEEDS({"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##ory\nship\n##s\n'\n,\n\u6f22\n",
            "[CLS]\r\n[SEP]\r\n[UNK]\r\n[PAD]\r\n[MASK]\r\no\r\n##a\r\n##r\r\n##s\r\n"})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const trireme::FuzzFile file("vocab.txt", {reinterpret_cast<const char*>(data), size});
  return trireme::fuzz_reader([&] {
    for (const char* type : {"bert", "bert_cased"}) {
      const auto tokenizer = trireme::make_tokenizer({.type = type, .vocab_file = file.path()});
      try_tokenizer(*tokenizer, false);
    }
  });
}
