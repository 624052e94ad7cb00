// Tests of characters in the components of a tokenizer.json, against the results of Hugging Face's
// library (data/make_unicode_golden.py).
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "tokenizer/huggingface/normalizer.h"
#include "tokenizer/huggingface/pre_tokenizer.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

using nlohmann::json;

const std::string kData = TRIREME_TEST_DATA;
const std::string kFile = "unicode.golden.json";

std::string utf8(char32_t c) {
  std::string out;
  append_utf8(c, out);
  return out;
}

struct Page {
  char32_t begin, end, step;
};

// The planes with most characters in full, then parts of ideographs and the rest.
std::vector<Page> pages() {
  std::vector<Page> out;
  for (char32_t c = 0; c < 0x20000; c += 0x800) out.push_back({c, c + 0x800, 1});
  out.push_back({0x2B700, 0x30000, 1});
  out.push_back({0x20000, 0x110000, 61});
  return out;
}

void expect_pages(const json& golden, const std::function<std::string(const std::string&)>& of) {
  std::vector<std::string> hashes;
  for (const Page& page : pages()) {
    std::string made;
    for (char32_t c = page.begin; c < page.end; c += page.step) {
      if (c < 0xD800 || c >= 0xE000) made += of(utf8(c));
    }
    hashes.push_back(hash_to_text(hash64(made)));
  }
  EXPECT_EQ(hashes, golden.at("pages").get<std::vector<std::string>>())
      << golden.dump().substr(0, 100);
}

TEST(HfUnicode, CharactersAreNormalizedAndCutAsByTheLibrary) {
  int tested = 0;
  for (const json& golden : json::parse(read_file(kData + "/" + kFile))) {
    if (golden.contains("normalizer")) {
      const auto normalizer = make_normalizer(JsonPlace(golden["normalizer"], kFile));
      expect_pages(golden, [&](const std::string& c) {
        HfText text{.text = "a\u0345" + c + "\u0334b" + c};  // marks that are reordered with others
        normalizer->apply(text);
        return text.text;
      });
    } else {
      const auto pre_tokenizer =
          make_pre_tokenizer(JsonPlace(golden["pre_tokenizer"], kFile), false);
      expect_pages(golden, [&](const std::string& c) {
        int pieces = 0;
        pre_tokenizer->cut("a" + c + "b", 0, [&](std::string_view, std::size_t) { ++pieces; });
        return std::to_string(pieces);
      });
    }
    ++tested;
  }
  EXPECT_EQ(tested, 15);
}

std::string normal(const char* form, std::string text) {
  const json part = {{"type", form}};
  HfText made{.text = std::move(text)};
  make_normalizer(JsonPlace(part, kFile))->apply(made);
  return made.text;
}

// Characters that are newer than the library's tables of normal forms.
TEST(HfUnicode, YoungCharactersStayAndEndWhatIsComposed) {
  EXPECT_EQ(normal("NFKD", "\u32FF \uFB01"), "\u32FF fi");
  EXPECT_EQ(normal("NFC", "\U00011935\U00011930"), "\U00011935\U00011930");
  // U+1ABF, a mark of class 220 since Unicode 13, blocks the composition of marks after it.
  EXPECT_EQ(normal("NFC", "e\u0301e\u1ABF\u0301"), "\u00E9e\u1ABF\u0301");
  EXPECT_EQ(normal("NFD", "e\u0301\u1ABF\u0323"), "e\u0301\u1ABF\u0323");
}

}  // namespace
}  // namespace trireme
