// Tests of UTF-8 decoding by the WHATWG rule.
#include "tokenizer/utf8.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

const std::string kFFFD = "\uFFFD";

TEST(Utf8, EachMaximalSubpartIsOneReplacement) {
  EXPECT_EQ(to_valid_utf8("a\x80z"), "a" + kFFFD + "z");
  EXPECT_EQ(to_valid_utf8("\xE2\x82"), kFFFD);                      // truncated at the end
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x91z"), kFFFD + "z");           // cut off by another character
  EXPECT_EQ(to_valid_utf8("\xC0\xAF"), kFFFD + kFFFD);              // overlong
  EXPECT_EQ(to_valid_utf8("\xE0\x80\x80"), kFFFD + kFFFD + kFFFD);  // overlong
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), kFFFD + kFFFD + kFFFD);  // a surrogate
  EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80"), kFFFD + kFFFD + kFFFD + kFFFD);  // beyond U+10FFFF
  EXPECT_EQ(to_valid_utf8("\xF1\x80\x80\xE1\x80\xC2"), kFFFD + kFFFD + kFFFD);
}

TEST(Utf8, EveryCharacterSurvives) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, text);
    const DecodedChar decoded = decode_utf8(text.data(), text.data() + text.size());
    ASSERT_TRUE(decoded.valid && decoded.value == c && decoded.length == text.size());
    ASSERT_TRUE(is_valid_utf8(text));
  }
}

}  // namespace
}  // namespace trireme
