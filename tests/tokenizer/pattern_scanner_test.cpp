// Tests of scanned regular expressions against Oniguruma's matches.
#include "tokenizer/patterns/pattern_scanner.h"

#include <gtest/gtest.h>

#include <thread>

#include "tokenizer/patterns/regex.h"
#include "tokenizer/random_text.h"

namespace trireme {
namespace {

using Matches = std::vector<std::pair<std::size_t, std::size_t>>;

Matches scanned(const Regex& regex, std::string_view text) {
  Matches out;
  regex.for_each_match(text, [&](std::size_t begin, std::size_t end) {
    out.push_back({begin, end});
  });
  return out;
}

Matches searched(const Regex& regex, std::string_view text) {
  Matches out;
  regex.search(text, 0, [&](std::size_t begin, std::size_t end) { out.push_back({begin, end}); });
  return out;
}

#define TRIREME_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
constexpr const char* kScannable[] = {
    // GPT-2, cl100k and Qwen 2, o200k, Kimi, DeepSeek V3 (three), CLIP, Bloom
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    TRIREME_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    TRIREME_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" TRIREME_CONTRACTIONS
    R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" TRIREME_CONTRACTIONS
    R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)" TRIREME_CONTRACTIONS
    R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)",
    R"( ?[^(\s|[.,!?…。，、।۔،])]+)",
    // Patterns for individual constructs.
    R"(s|se|sel)", R"(sel|se|s)", R"(e+?l|e)", R"(s??e|s)", R"((s|t)*?m)", R"([a-z]{2}|\S{3,}|.)",
    R"(l(?=\s)|l)", R"((?:d|m(?!e))+)", R"((?i:Sl|'M)e)", R"([^\S\n]+|[[a-m]&&[^d]])"};
#undef TRIREME_CONTRACTIONS

TEST(PatternScanner, FindsTheMatchesOfOniguruma) {
  RandomText random(38);
  for (const char* pattern : kScannable) {
    const Regex regex(pattern, "test");
    ASSERT_TRUE(regex.has_scanner()) << pattern;
    for (int i = 0; i < 1500; ++i) {
      const std::string text = random.next(i % 100 == 0 ? 400 : 24);
      ASSERT_EQ(scanned(regex, text), searched(regex, text)) << pattern << "\n" << text;
    }
  }
}

TEST(PatternScanner, LeavesOtherConstructsToOniguruma) {
  RandomText random(39);
  for (const char* pattern : {R"(\bs)", R"((?<=s)e|l)", R"(s*)", R"(^s)", R"(s$)", R"(s++e|s)",
                              R"((s|t)\1)", R"((?i:ss)|e)", R"((?i:s)(?i:t))", R"((?>s|se)l)",
                              R"(s{1,2}+e)", R"((?i:[s])e)", R"((?!se)s)", R"((?:s?)+e)",
                              R"(\x{73}e)", R"(\w{2,4}?)", R"([[:alpha:]]+)", R"(\Ae)", R"(\X)"}) {
    const Regex regex(pattern, "test");
    EXPECT_FALSE(regex.has_scanner()) << pattern;
    for (int i = 0; i < 50; ++i) {
      const std::string text = random.next(24);
      ASSERT_EQ(scanned(regex, text), searched(regex, text)) << pattern << "\n" << text;
    }
  }
}

// The automaton would need a state for each set of the last twelve positions, or would examine each
// character thousands of times.
TEST(PatternScanner, HandsOverWhatWouldGrow) {
  const Regex states("[st]*?s[st]{12}|[st]|l", "test");
  ASSERT_TRUE(states.has_scanner());
  std::string text;
  RandomText random(40);
  for (int i = 0; i < 5000; ++i) text += "stl"[random.below(100) == 0 ? 2 : random.below(2)];
  EXPECT_EQ(scanned(states, text), searched(states, text));
  const Regex ahead("e|e*l", "test");
  ASSERT_TRUE(ahead.has_scanner());
  const std::string same(3000, 'e');
  EXPECT_EQ(scanned(ahead, same), searched(ahead, same));
}

TEST(PatternScanner, ServesSeveralThreads) {
  RandomText random(41);
  std::vector<std::string> texts;
  for (int i = 0; i < 400; ++i) texts.push_back(random.next(60));
  const Regex shared(kScannable[3], "test"), alone(kScannable[3], "test");
  std::vector<Matches> found[2];
  std::vector<std::thread> threads;
  for (auto& own : found) {
    threads.emplace_back([&] {
      for (const std::string& text : texts) own.push_back(scanned(shared, text));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Matches expected = searched(alone, texts[i]);
    EXPECT_EQ(found[0][i], expected) << texts[i];
    EXPECT_EQ(found[1][i], expected) << texts[i];
  }
}

}  // namespace
}  // namespace trireme
