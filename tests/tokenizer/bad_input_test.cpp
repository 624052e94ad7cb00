// Tests of invalid files and flags: each is rejected with a message that says what and where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "tokenizer/bpe/bpe_trainer.h"
#include "tokenizer/jsonl.h"
#include "tokenizer/sentencepiece_models.h"
#include "tokenizer/tokenizer.h"

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

template <class Body>
void expect_refused(Body body, const std::string& message) {
  try {
    body();
    ADD_FAILURE() << "accepted; expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

// A folder with a small valid vocabulary that tests damage.
class BadInput : public testing::Test {
 protected:
  BadInput() : folder_(fs::temp_directory_path() / "trireme_bad_tokenizers") {
    PieceCounts counts;
    for (int i = 0; i < 2; ++i) counts.add("the ship and the oars and the sea");
    write_gpt2_files(train_bpe(counts, 262), folder_);
    vocab_ = json::parse(read_file(folder_ / "vocab.json"));
    merges_ = read_file(folder_ / "merges.txt");
  }
  ~BadInput() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  void refuse_gpt2(const std::string& vocab, const std::string& merges,
                   const std::string& message) {
    write_file_durably(folder_ / "vocab.json", vocab);
    write_file_durably(folder_ / "merges.txt", merges);
    expect_refused([&] { make_tokenizer({.type = "gpt2", .model_file = folder_.string()}); },
                   message);
  }

  void refuse(const std::string& type, const std::string& content, const std::string& message) {
    write_file_durably(folder_ / "file", content);
    const TokenizerConfig config{
        .type = type, .vocab_file = path("file"), .model_file = path("file")};
    expect_refused([&] { make_tokenizer(config); }, message);
  }

  fs::path folder_;
  json vocab_;
  std::string merges_;
};

TEST_F(BadInput, TypesAndFlags) {
  expect_refused([] { make_tokenizer({.type = "gtp2"}); }, "'gtp2' is not a tokenizer type");
  for (const char* theirs :
       {"HFTokenizer", "PretrainedFromHF", "HFGPT2Tokenizer", "Llama3Tokenizer",
        "PreTrainedTokenizerFast", "HuggingFace", "org/model"})
    expect_refused([&] { make_tokenizer({.type = theirs}); }, "use --tokenizer-type hf");
  expect_refused([] { make_tokenizer({.type = "SPMTokenizer"}); }, "sentencepiece");
  expect_refused([] { make_tokenizer({.type = "o200k-tiktoken"}); }, "--tokenizer-type tiktoken");
  for (const char* name : {"gpt2", "org/model"})
    expect_refused([&] { make_tokenizer({.type = "hf", .model_file = name}); },
                   "models are not downloaded");
  expect_refused([] { make_tokenizer({.type = "gpt2"}); }, "needs --vocab-file");
  expect_refused([] { make_tokenizer({.type = "gpt2", .vocab_file = "v"}); }, "needs --merge-file");
  expect_refused([] { make_tokenizer({.type = "hf"}); }, "needs --tokenizer-model");
  expect_refused([] { make_tokenizer({.type = "null"}); }, "vocabulary size");
  expect_refused([&] { make_tokenizer({.type = "hf", .model_file = path("absent")}); },
                 path("absent"));
}

TEST_F(BadInput, Vocabulary) {
  const std::string whole = vocab_.dump();
  refuse_gpt2(whole.substr(0, whole.size() / 2), merges_, "vocab.json' is not JSON");
  refuse_gpt2("", merges_, "vocab.json' is not JSON");
  refuse_gpt2("7", merges_, "is not a vocabulary");
  refuse_gpt2("{}", merges_, "contains no tokens");
  refuse_gpt2(R"({"a": {"b": 1}})", merges_, "the id of 'a' is not a whole number");
  refuse_gpt2(R"({"a": -1})", merges_, "the id of 'a' is not a whole number");
  refuse_gpt2(R"({"a": 1.5})", merges_, "the id of 'a' is not a whole number");
  refuse_gpt2(R"({"a": 99999999999})", merges_, "is too large");
  refuse_gpt2(R"({"a": 0, "a": 1})", merges_, "duplicate entry 'a'");
  refuse_gpt2(R"({"a": 0, "b": 0})", merges_, "'a' and 'b' have the same id 0");

  json hole = vocab_;
  hole.erase("!");
  refuse_gpt2(hole.dump(), merges_, "no token has the id 0");
  json lacks_byte = vocab_;
  lacks_byte.erase("\u0120");
  lacks_byte["something else"] = vocab_["\u0120"];
  refuse_gpt2(lacks_byte.dump(), merges_, "for the byte 0x20");
  json no_end = vocab_;
  no_end.erase("<|endoftext|>");
  refuse_gpt2(no_end.dump(), merges_, "no token '<|endoftext|>'");
}

TEST_F(BadInput, Merges) {
  const std::string vocab = vocab_.dump();
  const auto line = [&](const std::string& text) { return "#version: 0.2\n\n" + text + "\n"; };
  refuse_gpt2(vocab, line("t h e"), "merges.txt' line 3: 't h e' is not a merge");
  refuse_gpt2(vocab, line("t"), "line 3: 't' is not a merge");
  refuse_gpt2(vocab, line("t "), "line 3");
  refuse_gpt2(vocab, line("qq t"), "'qq' is not in the vocabulary");
  refuse_gpt2(vocab, line("q z"), "makes a token that is not in the vocabulary");
  refuse_gpt2(vocab, merges_ + "h e\nh e\n", "duplicate merge 'h e'");
}

TEST_F(BadInput, Tiktoken) {
  std::string bytes;
  const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int i = 0; i < 256; ++i) {
    bytes += fmt::format("{}{}== {}\n", digits[i >> 2], digits[(i & 3) << 4], i);
  }
  write_file_durably(folder_ / "sound", bytes);
  const auto vocab_size = [&](const std::string& pattern) {
    return make_tokenizer({.type = "tiktoken", .model_file = path("sound"), .pattern = pattern})
        ->vocab_size();
  };
  EXPECT_EQ(vocab_size("llama3"), 512);
  EXPECT_EQ(vocab_size("gpt2"), 257);
  expect_refused([&] { vocab_size(""); },
                 "has 256 ranks, from which its pre-tokenization cannot be determined");
  expect_refused([&] { vocab_size("llama"); }, "unknown pattern 'llama'; the patterns are gpt2,");
  expect_refused(
      [&] { make_tokenizer({.type = "hf", .model_file = path("sound"), .pattern = "gpt2"}); },
      "applies only to tiktoken files");

  refuse("tiktoken", "", "contains no tokens");
  refuse("tiktoken", bytes + "Y*== 256\n", "line 257: the token is not base64");
  refuse("tiktoken", bytes + "YWI 256\n", "line 257: the base64 is incomplete");
  refuse("tiktoken", bytes + "YWI=\n", "line 257: there is no rank");
  refuse("tiktoken", bytes + "YWI= x\n", "line 257: there is no rank");
  refuse("tiktoken", bytes + "YWI= -3\n", "line 257: there is no rank");
  refuse("tiktoken", bytes + "YWI= 4000000000\n", "line 257");
  refuse("tiktoken", bytes + "YWI= 2000000000\n", "line 257: the rank is too large");
  refuse("tiktoken", bytes + "YWI= 3\n", "line 257: the rank is taken");
  refuse("tiktoken", bytes + "AA== 256\n", "line 257: the token has a rank already");
  refuse("tiktoken", bytes + "YWI= 258\n", "no token has the rank 256");
  refuse("tiktoken", "YWI= 0\n", "no token for the single byte 0x00");
}

TEST_F(BadInput, Bert) {
  refuse("bert", "", "contains no tokens");
  refuse("bert", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", "no token '[MASK]'");
  refuse("bert", "[PAD]\na\n", "no token '[UNK]'");
  refuse("bert", "[PAD]\na\nb\na\n", "line 4: 'a' is already in line 2");
  refuse("bert", "[PAD]\n\na\n", "line 2 is empty");
  refuse("bert", "[PAD]\n\xff\n", "line 2 is not UTF-8");
}

TEST_F(BadInput, TokenizerJson) {
  const json model = {
      {"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}};
  const auto with = [&](const json& change) {
    json root = {{"model", model}};
    root.merge_patch(change);
    return root.dump();
  };
  write_file_durably(folder_ / "sound", with(json::object()));
  EXPECT_EQ(make_tokenizer({.type = "hf", .model_file = path("sound")})->vocab_size(), 3);

  refuse("hf", "{", "is not JSON");
  refuse("hf", "[]", "is a list, not an object");
  refuse("hf", "{}", "has no 'model'");
  refuse("hf", with({{"model", {{"type", "Unigram"}}}}), "model is of type 'Unigram'");
  refuse("hf", with({{"model", {{"vocab", 7}}}}), "model.vocab is the number 7, not an object");
  refuse("hf", with({{"model", {{"vocab", {{"a", -1}}}}}}),
         "model.vocab.a is the number -1, not an id");
  refuse("hf", with({{"model", {{"vocab", {{"a", 1}}}}}}), "gives the id 1 to 'a' and to 'b'");
  refuse("hf", with({{"model", {{"vocab", {{"a", 999999999}}}}}}),
         "model.vocab.a is the number 999999999, not an id");
  refuse("hf", with({{"model", {{"vocab", {{"a", 9999999}}}}}}), "is too large for 3 tokens");
  refuse("hf", with({{"model", {{"merges", {"a c"}}}}}), "model.merges[0] names 'c'");
  refuse("hf", with({{"model", {{"merges", {"b a"}}}}}), "model.merges[0] names 'ba'");
  refuse("hf", with({{"model", {{"merges", {"a b", "a b"}}}}}), "model.merges[1] repeats");
  refuse("hf", with({{"model", {{"merges", {"ab"}}}}}), "model.merges[0] is 'ab'");
  refuse("hf", with({{"model", {{"merges", {{"a"}}}}}}), "model.merges[0] is not a pair");
  refuse("hf", with({{"model", {{"unk_token", "u"}}}}), "model.unk_token is not in the vocabulary");
  refuse("hf", with({{"model", {{"continuing_subword_prefix", "##"}}}}),
         "model.merges[0] names 'b', which does not begin with the continuing_subword_prefix");
  refuse("hf", with({{"normalizer", {{"type", "Magic"}}}}), "normalizer is of type 'Magic'");
  refuse("hf", with({{"pre_tokenizer", {{"type", "Magic"}}}}), "pre_tokenizer is of type 'Magic'");
  refuse("hf", with({{"decoder", {{"type", "Magic"}}}}), "decoder is of type 'Magic'");
  refuse("hf", with({{"post_processor", {{"type", "Magic"}}}}),
         "post_processor is of type 'Magic'");
  refuse("hf", with({{"pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}}}}),
         "does not compile");
  refuse("hf",
         with({{"pre_tokenizer",
                {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Odd"}}}}),
         "unknown behavior 'Odd'");
  const json token = {{"id", 3}, {"content", "<x>"}};
  refuse("hf", with({{"added_tokens", {token, token}}}), "added_tokens[1] gives '<x>' the id 3");
  refuse("hf", with({{"added_tokens", {{{"id", 7}, {"content", "ab"}}}}}),
         "gives 'ab' the id 7, but the vocabulary gives it 2");
  refuse("hf", with({{"added_tokens", {{{"id", 9999999}, {"content", "<x>"}}}}}),
         "gives '<x>' the id 9999999, too large");
  refuse("hf", with({{"added_tokens", {{{"content", "ab"}}}}}), "added_tokens[0] has no 'id'");

  json deep = {{"type", "Lowercase"}};
  for (int i = 0; i < 60; ++i) deep = {{"type", "Sequence"}, {"normalizers", {deep}}};
  refuse("hf", with({{"normalizer", deep}}), "lies too deep");
}

TEST_F(BadInput, SentencePiece) {
  refuse("sentencepiece", "", "is not a SentencePiece model");
  refuse("sentencepiece", "no protocol buffer", "is not a SentencePiece model");
  // Two pieces that the library's trie cannot distinguish.
  refuse("sentencepiece", sentencepiece_model(1) + piece("t", 0, 1),
         "is not a SentencePiece model");
}

// The library follows these tables wherever they point.
TEST_F(BadInput, SentencePieceNormalization) {
  const std::string texts("t\0", 2);
  const std::string sound = sentencepiece_model(1, charsmap(one_letter_trie(0), texts));
  write_file_durably(path("file"), sound);
  const auto tokenizer = make_tokenizer({.type = "sentencepiece", .model_file = path("file")});
  std::vector<std::int32_t> small, large;
  tokenizer->encode("the", small);
  tokenizer->encode("The", large);
  EXPECT_EQ(small, large);

  const auto with = [&](std::size_t place, std::uint32_t unit) {
    std::vector<std::uint32_t> units = one_letter_trie(0);
    units[place] = unit;
    return charsmap(units, texts);
  };
  const std::string bad[] = {
      charsmap(one_letter_trie(2), texts),          // a leaf beyond the texts
      charsmap(one_letter_trie(0), "t"),            // a text without a terminator
      charsmap({}, texts),                          // no root
      charsmap({0x1FFFFFu << 10 | 1 << 9}, texts),  // root's children out of range
      with(0x100 | 'T', 0x200u << 10 | 'T'),        // a child's children outside
      charsmap(one_letter_trie(0), "").substr(0, 2000),
      std::string("\xff\xff\xff\xff\0\0", 6),
      std::string("\3\0\0\0abct\0", 9),
  };
  for (const std::string& table : bad)
    refuse("sentencepiece", sentencepiece_model(1, table), "is not a SentencePiece model");
  refuse("sentencepiece", sound + "\x1a\x7f", "is not a SentencePiece model");
}

TEST_F(BadInput, IdsOutsideTheVocabulary) {
  const auto tokenizer = make_tokenizer({.type = "gpt2", .model_file = folder_.string()});
  const auto size = tokenizer->vocab_size();
  for (const std::int32_t id : {-1, size, size + 1000}) {
    expect_refused([&] { tokenizer->decode(std::vector{id}); },
                   fmt::format("token id {} is outside the vocabulary of {} tokens", id, size));
    expect_refused([&] { tokenizer->token_bytes(id); }, "is outside the vocabulary");
  }
}

TEST_F(BadInput, AHoleInAVocabularyIsNoToken) {
  const std::string content =
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 5}, "merges": []}, "decoder": null})";
  write_file_durably(folder_ / "holes", content);
  const auto tokenizer = make_tokenizer({.type = "hf", .model_file = path("holes")});
  EXPECT_EQ(tokenizer->vocab_size(), 6);
  expect_refused([&] { tokenizer->decode(std::vector<std::int32_t>{3}); }, "is not assigned");
}

TEST_F(BadInput, NullReadsIdsOnly) {
  const auto tokenizer = make_tokenizer({.type = "NullTokenizer", .vocab_size = 10});
  std::vector<std::int32_t> ids;
  tokenizer->encode(" 3 10\n0", ids);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{3, 10, 0}));
  EXPECT_EQ(tokenizer->decode(ids), "3 10 0");
  EXPECT_EQ(tokenizer->decode(ids, true), "3 0");
  expect_refused([&] { tokenizer->encode("3 eleven", ids); }, "'eleven' is not an id");
  expect_refused([&] { tokenizer->encode("11", ids); }, "'11' is not an id from 0 to 10");
}

TEST(JsonLines, TellWhatIsWrong) {
  const auto read = [](std::string_view line) {
    return json_line_text(line, "text", "f.jsonl", 3);
  };
  EXPECT_EQ(read(R"({"text": "a\u00e9", "x": 1})"), "a\u00e9");
  expect_refused([&] { read("{"); }, "'f.jsonl' line 3: not JSON");
  expect_refused([&] { read(R"({"txt": "a"})"); }, "'f.jsonl' line 3: no key \"text\"");
  expect_refused([&] { read(R"(["a"])"); }, "'f.jsonl' line 3: not a JSON object but a list");
  expect_refused([&] { read(R"({"text": ["a", "b"]})"); }, "is a list, not a string");
  expect_refused([&] { read(R"({"text": 7})"); },
                 "the value of \"text\" is the number 7, not a string");
}

TEST(JsonLines, IllFormedTextBecomesReplacementCharacters) {
  const auto read = [](std::string_view line) { return json_line_text(line, "text", "f", 1); };
  EXPECT_EQ(read("{\"text\": \"a\xff\xe2\x82z\"}"), "a\uFFFD\uFFFDz");
  EXPECT_EQ(read(R"({"text": "\ud83d\udc4d"})"), "\U0001F44D");
  EXPECT_EQ(read(R"({"text": "\ud83d!"})"), "\uFFFD!");
  EXPECT_EQ(read(R"({"text": "\udc4d\ud83d"})"), "\uFFFD\uFFFD");
  EXPECT_EQ(read(R"({"text": "\ud83d\ud83d\udc4d"})"), "\uFFFD\U0001F44D");
  EXPECT_EQ(read(R"({"text": "\\ud83d"})"), "\\ud83d");
}

}  // namespace
}  // namespace trireme
