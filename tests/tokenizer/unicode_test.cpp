// Tests of normal forms against utf8proc's, and in cases in which that is slow or wrong.
#include "tokenizer/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include "growth.h"
#include "tokenizer/huggingface/unicode.h"
#include "tokenizer/random_text.h"
#include "tokenizer/utf8.h"
#include "tokenizer/wordpiece/bert_text.h"

namespace trireme {
namespace {

constexpr NormalForm forms[] = {NormalForm::nfc, NormalForm::nfd, NormalForm::nfkc,
                                NormalForm::nfkd};

std::string normal(NormalForm form, std::string_view text) {
  std::string out;
  append_normal_form(form, text, out);
  return out;
}

// The library's function for whole texts.
std::string by_library(NormalForm form, const std::string& text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.c_str());
  utf8proc_uint8_t* made = form == NormalForm::nfc    ? utf8proc_NFC(bytes)
                           : form == NormalForm::nfd  ? utf8proc_NFD(bytes)
                           : form == NormalForm::nfkc ? utf8proc_NFKC(bytes)
                                                      : utf8proc_NFKD(bytes);
  std::string out(reinterpret_cast<char*>(made));
  std::free(made);
  return out;
}

std::string utf8(std::initializer_list<char32_t> chars) {
  std::string out;
  for (const char32_t c : chars) append_utf8(c, out);
  return out;
}

TEST(NormalForm, OfEveryCharacterIsTheLibrarys) {
  for (const NormalForm form : forms) {
    for (char32_t c = 1; c < 0x110000; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      const std::string text = utf8({'a', c, 0x334, 0x345});
      ASSERT_EQ(normal(form, text), by_library(form, text)) << std::hex << std::uint32_t{c};
    }
  }
}

// Between characters that it may compose with, and after some that it often follows.
TEST(NormalForm, ComposesEveryCharacterWithItsNeighbors) {
  for (char32_t c = 1; c < 0x110000; ++c) {
    // The library treats U+11A7 as a Hangul consonant.
    if ((c >= 0xD800 && c < 0xE000) || c == 0x11A7) continue;
    const std::string text =
        utf8({c, 'e', c, 0xAC00, c, 0x9C7, c, 0x304B, c, c, 0x1100, c, 'b', 0x301});
    ASSERT_EQ(normal(NormalForm::nfc, text), by_library(NormalForm::nfc, text))
        << std::hex << std::uint32_t{c};
  }
}

TEST(NormalForm, OfRandomTextsIsTheLibrarys) {
  RandomText random(3);
  std::vector<char32_t> marks{0x334,  0x345,  0x5B0,  0x1100, 0x1161, 0x11A8, 0xAC00, 0x9C7, 0x9BE,
                              0x1E9B, 0x3099, 0x304B, 0x2126, 0xFDFA, 'e',    0x300,  0x301, 0x323};
  for (int i = 0; i < 20'000; ++i) {
    std::string text = random.next(4);
    for (std::size_t n = random.below(12); n > 0; --n) {
      append_utf8(marks[random.below(marks.size())], text);
    }
    std::erase(text, '\0');
    for (const NormalForm form : forms)
      ASSERT_EQ(normal(form, text), by_library(form, text)) << text;
  }
}

TEST(NormalForm, TheBaseOfHangulTrailersIsNoTrailer) {
  // U+11A7 does not compose: not with a syllable, not with two letters, not at either end.
  EXPECT_EQ(normal(NormalForm::nfc, utf8({0xAC00, 0x11A7})), utf8({0xAC00, 0x11A7}));
  EXPECT_EQ(normal(NormalForm::nfkc, utf8({0x1100, 0x1161, 0x11A7, 0x11A8})),
            utf8({0xAC00, 0x11A7, 0x11A8}));
  EXPECT_EQ(normal(NormalForm::nfc, utf8({0x11A7, 'e', 0x301, 0x11A7})),
            utf8({0x11A7, 0xE9, 0x11A7}));
  EXPECT_EQ(normal(NormalForm::nfc, utf8({0xAC00, 0x11A8, 0xAC00, 0x11C2})),
            utf8({0xAC01, 0xAC1B}));
}

// Sorting marks must not take quadratic time.
TEST(NormalForm, ManyMarksOnALetterTakeNoLongerThanOther) {
  const auto normalize = [](int marks) {
    std::string text = "a";
    for (int i = 0; i < marks; ++i) append_utf8(i % 2 == 0 ? 0x301 : 0x323, text);
    for (const NormalForm form : forms) {
      const std::string out = normal(form, text);
      EXPECT_LE(out.size(), text.size());
      // All marks of the lower class (U+0323) come first.
      EXPECT_LT(out.rfind("\u0323"), out.find("\u0301"));
    }
    EXPECT_EQ(BertNormalizer().apply(text), "a");
  };
  EXPECT_LT(growth_over_8(normalize, 4'000), subquadratic);
}

TEST(BertNormalizer, LeavesOutTheIdeographsThatTheReferenceLeavesOut) {
  const std::string text = utf8({0x2B81F, 0x2B820, 0x2B91F, 0x2B920});
  const auto spaced = [](std::string_view c) { return " " + std::string(c) + " "; };
  std::string all, some;
  for (const char32_t c : {0x2B81F, 0x2B820, 0x2B91F, 0x2B920}) {
    all += spaced(utf8({c}));
    some += c == 0x2B820 || c == 0x2B91F ? utf8({c}) : spaced(utf8({c}));
  }
  EXPECT_EQ(BertNormalizer{}.apply(text), all);
  BertNormalizer hugging_face;
  hugging_face.unicode = &hf_unicode;
  EXPECT_EQ(hugging_face.apply(text), some);
}

TEST(BertWords, BreakAtAsciiCharactersAsUnicodeSays) {
  for (char32_t c = 0; c < 0x80; ++c) {
    const BertBreak kind = bert_ascii_breaks[c];
    EXPECT_EQ(kind == BertBreak::space, is_white_space(c)) << static_cast<int>(c);
    for (const UnicodeRules* rules : {&newest_unicode, &hf_unicode}) {
      EXPECT_EQ(kind == BertBreak::punctuation, rules->is_punctuation(c)) << static_cast<int>(c);
    }
  }
}

}  // namespace
}  // namespace trireme
