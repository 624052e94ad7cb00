// Fuzz target for texts: bytes are a valid JSON line or rejected; sentences add up to the text.
#include <cstdlib>

#include "data/bert/sentences.h"
#include "data/documents/document_chunks.h"
#include "data/documents/json_texts.h"
#include "fuzz/fuzz.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

void check(bool condition) {
  if (!condition) std::abort();
}

void check_sentences(std::string_view text) {
  std::vector<std::string_view> sentences;
  split_sentences(text, true, sentences);
  std::string sum;
  for (const std::string_view sentence : sentences) sum += sentence;
  check(sentences.empty() || sum == text);
}

}  // namespace
}  // namespace trireme

FUZZ_SEEDS({R"({"text": "One. Two\n\n\u00e9\ud83d\ude00 \ud800", "id": [1, 2.5e3, {}]})",
            R"({"text": ["Mr. A.", "b?"], "other": null})", "{\"text\": \"\xff\xe3\x80\x82\"}"})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  std::string line(reinterpret_cast<const char*>(data), size);
  check_sentences(line);
  line.append(Chunk::padding, '\0');
  static JsonTexts texts({"text"});
  return fuzz_reader([&] {
    for (const auto& key_texts : texts.read({line.data(), size})) {
      for (const std::string_view text : key_texts) check(is_valid_utf8(text));
    }
  });
}
