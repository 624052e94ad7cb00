// Fuzz target for vocab.json and merges.txt, separated by a NUL. Accepted files must preserve every
// byte.
#include "base/file.h"
#include "fuzz/fuzz.h"
#include "tokenizer/bpe/bpe_trainer.h"
#include "tokenizer/fuzz_round_trip.h"

namespace {

std::string trained() {
  trireme::PieceCounts counts;
  for (int i = 0; i < 2; ++i) counts.add("the theory of the ship's oars");
  const auto folder =
      std::filesystem::temp_directory_path() / ("trireme_fuzz_seed_" + std::to_string(::getpid()));
  write_gpt2_files(trireme::train_bpe(counts, 270), folder);
  const std::string files =
      trireme::read_file(folder / "vocab.json") + '\0' + trireme::read_file(folder / "merges.txt");
  std::filesystem::remove_all(folder);
  return files;
}

}  // namespace

FUZZ_SEEDS({trained(), std::string("{\"a\": 0}\0a b", 12)})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = std::min(input.find('\0'), input.size());
  const trireme::FuzzFile vocab("vocab.json", input.substr(0, cut));
  const trireme::FuzzFile merges("merges.txt", input.substr(std::min(cut + 1, input.size())));
  return trireme::fuzz_reader([&] {
    const auto tokenizer = trireme::make_tokenizer(
        {.type = "gpt2", .vocab_file = vocab.path(), .merge_file = merges.path()});
    try_tokenizer(*tokenizer, true);
  });
}
