// Fuzz target for tiktoken's files of ranks. Accepted files must preserve every byte.
#include <fmt/format.h>

#include "fuzz/fuzz.h"
#include "tokenizer/fuzz_round_trip.h"

namespace {

std::string bytes_and(const std::string& more) {
  const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (int i = 0; i < 256; ++i) {
    out += fmt::format("{}{}== {}\n", digits[i >> 2], digits[(i & 3) << 4], i);
  }
  return out + more;
}

}  // namespace

FUZZ_SEEDS({bytes_and(""), bytes_and("dGg= 256\ndGhl 257\nICA= 258\n"), "dGg= 0\n"})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const trireme::FuzzFile file("tiktoken", {reinterpret_cast<const char*>(data), size});
  return trireme::fuzz_reader([&] {
    const auto tokenizer = trireme::make_tokenizer(
        {.type = "tiktoken", .model_file = file.path(), .pattern = "llama3"});
    try_tokenizer(*tokenizer, true);
  });
}
