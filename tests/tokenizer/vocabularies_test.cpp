// Tests that vocabularies modified by editors give the plain file's tokenizer, or an error that
// says why.
#include <gmock/gmock.h>
#include <unistd.h>

#include <functional>

#include "base/file.h"
#include "refusal.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary_lines.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

constexpr std::string_view mark = "\xef\xbb\xbf";

class Vocabularies : public ::testing::Test {
 protected:
  Vocabularies() { fs::create_directories(folder_); }
  ~Vocabularies() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, std::string_view bytes) const {
    File file(folder_ / name, File::Mode::create);
    file.write(bytes.data(), bytes.size());
    return (folder_ / name).string();
  }
  static Ids ids_of(const TokenizerConfig& config, std::string_view text) {
    Ids ids;
    make_tokenizer(config)->encode(text, ids);
    return ids;
  }

  const fs::path folder_ =
      fs::temp_directory_path() / fmt::format("trireme_vocabularies_{}", ::getpid());
};

std::string joined(const std::vector<std::string>& lines, std::string_view end) {
  std::string out;
  for (const std::string& line : lines) out += line + std::string(end);
  return out;
}

const std::vector<std::string> bert_words = {"[PAD]", "[UNK]", "[CLS]",       "[SEP]", "[MASK]",
                                             "the",   "river", "##s",         "stone", ",",
                                             ".",     "and",   "\xe6\x96\x87"};

TEST_F(Vocabularies, OfBertMayHaveWhiteSpaceAtTheEndOfLines) {
  const char* const text = "the river, and stones. \xe6\x96\x87";
  const auto config = [&](std::string_view bytes) {
    return TokenizerConfig{.type = "bert", .vocab_file = write("vocab.txt", bytes)};
  };
  const Ids expected = ids_of(config(joined(bert_words, "\n")), text);
  EXPECT_EQ(expected, (Ids{5, 6, 9, 11, 8, 7, 10, 12}));
  const std::string_view spaces[] = {
      "",         " ",        "  ",           "\t",           " \t ",
      "\r",       " \r",      "\r\r",         "\x0b",         "\x0c",
      "\xc2\xa0", "\xc2\x85", "\xe3\x80\x80", "\xe2\x80\xa8", "\xe2\x80\x83 "};
  int tried = 0;
  for (const std::string_view space : spaces) {
    for (const bool marked : {false, true}) {
      for (const int every : {1, 3}) {  // lines with white space
        std::string bytes(marked ? mark : "");
        for (std::size_t i = 0; i < bert_words.size(); ++i) {
          bytes += bert_words[i];
          if (i % static_cast<std::size_t>(every) == 0) bytes += space;
          bytes += "\n";
        }
        EXPECT_EQ(ids_of(config(bytes), text), expected) << bytes;
        bytes.pop_back();  // no newline at the end
        EXPECT_EQ(ids_of(config(bytes), text), expected) << bytes;
        tried += 2;
      }
    }
  }
  EXPECT_GE(tried, 30);
  EXPECT_EQ(ids_of(config(joined(bert_words, "\r\n")), text), expected);
}

TEST_F(Vocabularies, OfBertThatSayTwoThingsAreRefused) {
  const auto refusal = [&](std::vector<std::string> words) {
    return refusal_of([&] {
      ids_of({.type = "bert", .vocab_file = write("vocab.txt", joined(words, "\n"))}, "a");
    });
  };
  auto words = bert_words;
  words.push_back("river\t");
  EXPECT_THAT(refusal(words), HasSubstr("line 14: 'river' is already in line 7"));
  words = bert_words;
  words[6] = "";
  EXPECT_THAT(refusal(words), HasSubstr("line 7 is empty"));
}

TEST_F(Vocabularies, AreNamedWhereTheyAreSomethingElse) {
  using namespace std::string_view_literals;
  const std::pair<std::string_view, std::string> others[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n"sv, "git lfs pull"},
      {"<!doctype html><html>"sv, "a web page"},
      {"\x1f\x8b\x08\0\0\0\0\0"sv, "compressed with gzip"},
      {"PK\x03\x04\x14\0"sv, "a zip archive"},
      {"\xff\xfe[\0P\0"sv, "text in UTF-16"},
      {"[\0P\0A\0D\0"sv, "text in UTF-16"}};
  for (const auto& [bytes, what] : others) {
    const std::string file = write("file", bytes);
    const std::string merges = write("merges.txt", "#version: 0.2\n");
    const std::vector<TokenizerConfig> all = {
        {.type = "bert", .vocab_file = file},
        {.type = "gpt2", .vocab_file = file, .merge_file = merges},
        {.type = "tiktoken", .model_file = file},
        {.type = "sentencepiece", .model_file = file},
        {.type = "hf", .model_file = file}};
    for (const TokenizerConfig& config : all) {
      EXPECT_THAT(refusal_of([&] { make_tokenizer(config); }),
                  AllOf(HasSubstr("file' is "), HasSubstr(what)))
          << config.type;
    }
  }
}

TEST(VocabularyLines, LoseWhiteSpaceAtTheirEnd) {
  EXPECT_EQ(trimmed_end("a b \t\r"), "a b");
  EXPECT_EQ(trimmed_end(" a"), " a");
  EXPECT_EQ(trimmed_end("a\xe3\x80\x80\xc2\xa0"), "a");
  EXPECT_EQ(trimmed_end("a\xff"), "a\xff");
  EXPECT_EQ(trimmed_end("\xe6\x96\x87"), "\xe6\x96\x87");
  EXPECT_EQ(trimmed_end("\xe3\x80\x80"), "\xe3\x80\x80");  // a token of its own
  EXPECT_EQ(without_byte_order_mark("\xef\xbb\xbf\xef\xbb\xbf"
                                    "a"),
            "\xef\xbb\xbf"
            "a");
}

}  // namespace
}  // namespace trireme
