// Tests of the hand-written pre-tokenizers against the regular expressions that they replace.
#include "tokenizer/patterns/split.h"

#include <gtest/gtest.h>

#include "tokenizer/patterns/regex.h"
#include "tokenizer/random_text.h"

namespace trireme {
namespace {

using Pieces = std::vector<std::string>;

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kCl100k =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

template <SplitPattern pattern>
Pieces by_hand(std::string_view text) {
  Pieces pieces;
  split<pattern>(text.data(), text.data() + text.size(),
                 [&](const char* begin, const char* end) { pieces.emplace_back(begin, end); });
  return pieces;
}

Pieces by_regex(const Regex& regex, std::string_view text) {
  Pieces pieces;
  std::size_t done = 0;
  regex.for_each_match(text, [&](std::size_t begin, std::size_t end) {
    EXPECT_EQ(begin, done) << "the pattern leaves nothing between its matches";
    pieces.emplace_back(text.substr(begin, end - begin));
    done = end;
  });
  return pieces;
}

TEST(Split, ClassesAreThoseOfTheRegularExpressions) {
  std::string of_class[4];
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c < 0xD800 || c >= 0xE000) append_utf8(c, of_class[static_cast<int>(char_classes()[c])]);
  }
  const char* strangers[] = {"[\\p{L}\\p{N}\\s]", "\\P{L}", "\\P{N}", "\\S"};
  for (int cls = 0; cls < 4; ++cls) {
    int found = 0;
    Regex(strangers[cls], "test").for_each_match(of_class[cls], [&](auto, auto) { ++found; });
    EXPECT_EQ(found, 0) << "class " << cls;
  }
}

TEST(Split, EqualsTheRegularExpressionsOnRandomUnicode) {
  const Regex gpt2(kGpt2, "gpt2");
  const Regex cl100k(kCl100k, "cl100k");
  RandomText random(20240501);
  for (int i = 0; i < 30'000; ++i) {
    const std::string text = random.next(i % 100 == 0 ? 400 : 24);
    ASSERT_EQ(by_hand<SplitPattern::gpt2>(text), by_regex(gpt2, text)) << text;
    ASSERT_EQ(by_hand<SplitPattern::cl100k>(text), by_regex(cl100k, text)) << text;
  }
}

// Of 64 ASCII characters the borders are found at once, and the rest piece by piece.
TEST(Split, EqualsTheRegularExpressionsOnBlocksOfAscii) {
  const Regex gpt2(kGpt2, "gpt2");
  const Regex cl100k(kCl100k, "cl100k");
  const Regex qwen2(kQwen2, "qwen2");
  RandomText random(20261127);
  for (int i = 0; i < 30'000; ++i) {
    const std::string text = random.ascii(300);
    ASSERT_EQ(by_hand<SplitPattern::gpt2>(text), by_regex(gpt2, text)) << text;
    ASSERT_EQ(by_hand<SplitPattern::cl100k>(text), by_regex(cl100k, text)) << text;
    ASSERT_EQ(by_hand<SplitPattern::qwen2>(text), by_regex(qwen2, text)) << text;
  }
}

// Ill-formed bytes are split like the U+FFFD that replace them by the WHATWG rule.
TEST(Split, IllFormedBytesCountAsReplacementCharacters) {
  RandomText random(7);
  for (int i = 0; i < 5'000; ++i) {
    const std::string text = random.next(6) + random.bytes(random.below(12)) + random.next(6);
    Pieces pieces = by_hand<SplitPattern::cl100k>(text);
    for (std::string& piece : pieces) piece = to_valid_utf8(piece);
    ASSERT_EQ(pieces, by_hand<SplitPattern::cl100k>(to_valid_utf8(text)));
  }
}

TEST(Split, LongSIsACaseOfS) {
  EXPECT_EQ(by_hand<SplitPattern::cl100k>("it'\u017F"), (Pieces{"it", "'\u017F"}));
  EXPECT_EQ(by_hand<SplitPattern::gpt2>("it'\u017F"), (Pieces{"it", "'", "\u017F"}));
}

// Hugging Face's library treats \p{Word} as \w outside of brackets, but not inside.
TEST(Regex, NamesWordsAsTheReference) {
  const auto matches = [](const char* pattern, std::string_view text) {
    int found = 0;
    Regex(pattern, "test").for_each_match(text, [&](auto, auto) { ++found; });
    return found;
  };
  const std::string_view six = "\u00b2\u00b3\u00b9\u00bc\u00bd\u00be";
  for (const char* const word :
       {"\\w", "\\p{Word}", "\\p{ word }", "\\P{^Word}", "(?:\\p{Word})", "\\[?\\p{Word}"}) {
    EXPECT_EQ(matches(word, six), 6) << word;
    EXPECT_EQ(matches(word, "a\u00e9_\u2074 "), 3) << word;
  }
  for (const char* const other :
       {"\\W", "\\P{Word}", "\\p{^Word}", "[\\p{Word}]", "[]\\p{Word}]", "[[:word:]]"}) {
    EXPECT_EQ(matches(other, six), 0) << other;
  }
  for (const char* const all : {"[\\P{Word}]", "[^\\p{Word}]", "[^]\\p{Word}]"}) {
    EXPECT_EQ(matches(all, six), 6) << all;
  }
}

}  // namespace
}  // namespace trireme
