// Tests with shared development vectors: about 600 texts for each of four vocabularies.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tokenizer/tokenizer.h"

namespace trireme {
namespace {

const std::string kShared = TRIREME_SHARED_DATA;

std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

void expect_vectors(const TokenizerConfig& config, const std::string& file) {
  if (!fs::exists(kShared + "/" + file)) GTEST_SKIP() << "no " << kShared << "/" << file;
  const auto tokenizer = make_tokenizer(config);
  const auto cases = nlohmann::json::parse(read_file(kShared + "/" + file)).at("cases");
  ASSERT_GT(cases.size(), 500u);
  for (const auto& one : cases) {
    const std::string text = one.at("text");
    EXPECT_EQ(encode(*tokenizer, text), one.at("ids").get<std::vector<std::int32_t>>()) << text;
  }
}

TEST(Vectors, Gpt2) {
  expect_vectors({.type = "gpt2",
                  .vocab_file = kShared + "/gpt2/vocab.json",
                  .merge_file = kShared + "/gpt2/merges.txt"},
                 "dev_gpt2.json");
}

TEST(Vectors, Cl100k) {
  expect_vectors({.type = "tiktoken", .model_file = kShared + "/cl100k/cl100k_base.tiktoken"},
                 "dev_cl100k.json");
}

TEST(Vectors, Bert) {
  expect_vectors({.type = "bert", .vocab_file = kShared + "/bert/vocab.txt"}, "dev_bert.json");
}

TEST(Vectors, BertCased) {
  expect_vectors({.type = "bert_cased", .vocab_file = kShared + "/bert_cased/vocab.txt"},
                 "dev_bert_cased.json");
}

}  // namespace
}  // namespace trireme
