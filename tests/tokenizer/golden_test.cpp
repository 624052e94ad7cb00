// Tests of small tokenizers of every kind against the reference libraries on the same texts
// (data/make_golden.py).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

const std::string kData = TRIREME_TEST_DATA;

json read_golden(const std::string& name) {
  return json::parse(read_file(kData + "/" + name + ".golden.json"));
}

Ids encode(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

// A file that exists for one test.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, std::string_view content)
      : path_(fs::temp_directory_path() / ("trireme_golden_" + name)) {
    write_file_durably(path_, content);
  }
  ~TemporaryFile() { fs::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

class HfGolden : public testing::TestWithParam<const char*> {
 protected:
  HfGolden()
      : golden_(read_golden(GetParam())),
        file_(std::string(GetParam()) + ".json", golden_.at("tokenizer").dump()),
        tokenizer_(make_tokenizer({.type = "hf", .model_file = file_.path()})) {}

  json golden_;
  TemporaryFile file_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(HfGolden, EncodesAsTheReference) {
  for (const json& one : golden_.at("cases")) {
    const std::string text = one.at("text");
    const std::string other = one.at("other");
    EXPECT_EQ(encode(*tokenizer_, text), one.at("ids").get<Ids>()) << text;
    const Encoding single = tokenizer_->encode_with_special(text);
    EXPECT_EQ(single.ids, one.at("single").at(0).get<Ids>()) << text;
    EXPECT_EQ(single.type_ids, one.at("single").at(1).get<Ids>()) << text;
    const Encoding pair = tokenizer_->encode_with_special(text, other);
    EXPECT_EQ(pair.ids, one.at("pair").at(0).get<Ids>()) << text << " and " << other;
    EXPECT_EQ(pair.type_ids, one.at("pair").at(1).get<Ids>()) << text << " and " << other;
  }
}

TEST_P(HfGolden, DecodesAsTheReference) {
  for (const json& one : golden_.at("decoded")) {
    const Ids ids = one.at("ids");
    EXPECT_EQ(to_valid_utf8(tokenizer_->decode(ids)), one.at("text").get<std::string>());
    EXPECT_EQ(to_valid_utf8(tokenizer_->decode(ids, true)), one.at("skipped").get<std::string>());
  }
}

TEST_P(HfGolden, ADocumentHasWhatTheTemplateAdds) {
  Ids ids;
  tokenizer_->encode_document("a ship", ids);
  EXPECT_EQ(ids, tokenizer_->encode_with_special("a ship").ids);
}

// A prompt is a document that has not ended yet.
TEST_P(HfGolden, APromptHasWhatTheTemplateAddsBeforeTheText) {
  Ids prompt, document;
  tokenizer_->encode_prompt("a ship", prompt);
  tokenizer_->encode_document("a ship", document);
  const Ids text = encode(*tokenizer_, "a ship");
  ASSERT_GE(prompt.size(), text.size());
  EXPECT_TRUE(std::equal(text.rbegin(), text.rend(), prompt.rbegin()));
  ASSERT_LE(prompt.size(), document.size());
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), document.begin()));
  const bool opens = document.front() != text.front();
  EXPECT_EQ(prompt.size(), text.size() + (opens ? 1 : 0));
}

INSTANTIATE_TEST_SUITE_P(Files, HfGolden,
                         testing::Values("llama2_prepend", "llama2_metaspace_first",
                                         "char_bpe_unknown", "llama3", "byte_level_nfc_regex",
                                         "roberta", "bert_uncased", "bert_cased",
                                         "wordpiece_sequence"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Golden, Tiktoken) {
  const json golden = read_golden("tiktoken");
  const TemporaryFile file("small.tiktoken", golden.at("ranks").get<std::string>());
  const TokenizerConfig config{
      .type = "TikTokenizer", .model_file = file.path(), .pattern = "llama3"};
  TokenizerConfig plain_text = config;
  plain_text.special_text = false;
  const auto special = make_tokenizer(config);
  const auto plain = make_tokenizer(plain_text);
  for (const json& one : golden.at("cases")) {
    const std::string text = one.at("text");
    EXPECT_EQ(encode(*special, text), one.at("ids").get<Ids>()) << text;
    EXPECT_EQ(encode(*plain, text), one.at("plain").get<Ids>()) << text;
    EXPECT_EQ(special->decode(one.at("ids").get<Ids>()), text);
  }
  EXPECT_EQ(special->token_id("<|end_of_text|>"), special->eod_id());
}

TEST(Golden, SentencePiece) {
  const json golden = read_golden("sentencepiece");
  const std::string model = kData + "/sentencepiece.model";
  const auto plain = make_tokenizer({.type = "sentencepiece", .model_file = model});
  const auto llama2 = make_tokenizer({.type = "Llama2Tokenizer", .model_file = model});
  for (const json& one : golden.at("cases")) {
    const std::string text = one.at("text");
    const Ids ids = one.at("ids");
    EXPECT_EQ(encode(*plain, text), ids) << text;
    Ids document;
    llama2->encode_document(text, document);
    EXPECT_EQ(document.front(), llama2->special().bos);
    EXPECT_EQ(Ids(document.begin() + 1, document.end()), ids);
    Ids prompt;
    llama2->encode_prompt(text, prompt);
    EXPECT_EQ(prompt, document);
  }
  for (const json& one : golden.at("decoded")) {
    EXPECT_EQ(plain->decode(one.at("ids").get<Ids>()), one.at("text").get<std::string>());
  }
}

TEST(Golden, MegatronAddsTokensToSentencePiece) {
  const auto tokenizer = make_tokenizer(
      {.type = "SentencePieceTokenizer", .model_file = kData + "/sentencepiece.model"});
  // 500 pieces including <s> and </s>, but no padding token.
  EXPECT_EQ(tokenizer->special().cls, 500);
  EXPECT_EQ(tokenizer->special().sep, 501);
  EXPECT_EQ(tokenizer->eod_id(), 502);
  EXPECT_EQ(tokenizer->special().mask, 503);
  EXPECT_EQ(tokenizer->special().pad, 504);
  EXPECT_EQ(tokenizer->special().bos, 1);
  EXPECT_EQ(tokenizer->special().eos, 2);
  EXPECT_EQ(tokenizer->vocab_size(), 505);
  const Ids ids = encode(*tokenizer, "oar<SEP>oar");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 501), 1);
  EXPECT_EQ(tokenizer->decode(Ids{501}), " <SEP> ");
  EXPECT_EQ(tokenizer->decode(Ids{501}, true), "");
}

}  // namespace
}  // namespace trireme
