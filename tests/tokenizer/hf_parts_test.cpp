// Tests of tokenizer.json components whose meaning is easily misunderstood. The IDs are from
// Hugging Face's library, version 0.23.3.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "tokenizer/bpe/byte_alphabet.h"
#include "tokenizer/tokenizer.h"

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

class HfParts : public testing::Test {
 protected:
  HfParts() : file_(fs::temp_directory_path() / "trireme_hf_parts.json") {}
  ~HfParts() override { fs::remove(file_); }

  std::unique_ptr<Tokenizer> load(const json& content, bool special_text = true) const {
    write_file_durably(file_, content.dump());
    return make_tokenizer(
        {.type = "hf", .model_file = file_.string(), .special_text = special_text});
  }

  static Ids encode(const Tokenizer& tokenizer, std::string_view text) {
    Ids ids;
    tokenizer.encode(text, ids);
    return ids;
  }

  // Returns the number of pieces of a pre-tokenizer: each piece is an unknown word.
  std::size_t pieces(const json& pre_tokenizer, std::string_view text) const {
    const json model = {{"type", "WordLevel"}, {"vocab", {{"?", 0}}}, {"unk_token", "?"}};
    return encode(*load({{"model", model}, {"pre_tokenizer", pre_tokenizer}}), text).size();
  }

  void expect_refused(const json& content, const std::string& message) const {
    try {
      load(content);
      ADD_FAILURE() << "accepted; expected: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }

  fs::path file_;
};

json bpe(const json& vocab, const json& merges = json::array()) {
  return {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}};
}

json bytes_vocabulary() {
  json vocab;
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    vocab[spell_bytes({&text, 1})] = byte;
  }
  return vocab;
}

const json kByteLevel = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};

json split(const std::string& regex, const std::string& behavior = "Isolated") {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}};
}

// A long piece without any merges.
TEST_F(HfParts, BpeWithoutMerges) {
  const auto tokenizer = load({{"model", bpe(bytes_vocabulary())}, {"pre_tokenizer", kByteLevel}});
  EXPECT_EQ(encode(*tokenizer, std::string(500, 'x')), Ids(500, 'x'));
}

// GPT-NeoX: runs of spaces are added tokens, and the vocabulary spells runs of bytes the same way.
TEST_F(HfParts, AddedTokensAreComparedWithTheSpellingOfTheVocabulary) {
  json vocab = bytes_vocabulary();
  vocab["\u0120\u0120"] = 256;
  const json content = {{"model", bpe(vocab, {"\u0120 \u0120"})},
                        {"pre_tokenizer", kByteLevel},
                        {"added_tokens", {{{"id", 257}, {"content", "  "}, {"normalized", true}}}}};
  EXPECT_EQ(encode(*load(content), "a  b"), (Ids{'a', 257, 'b'}));

  json other = content;
  other["added_tokens"][0]["id"] = 300;
  expect_refused(other, "the next free one, which Hugging Face's library takes, is 257");
  other["added_tokens"][0] = {{"id", 257}, {"content", "\u0120\u0120"}};
  expect_refused(other, "but the vocabulary gives it 256");
}

TEST_F(HfParts, WhiteSpaceTokensThatStripBothWays) {
  const json content = {
      {"model", bpe({{"a", 0}, {"b", 1}, {"\u0120", 2}})},
      {"pre_tokenizer", kByteLevel},
      {"added_tokens",
       {{{"id", 3}, {"content", " "}, {"lstrip", true}, {"rstrip", true}, {"normalized", false}}}}};
  EXPECT_EQ(encode(*load(content), "a    b"), (Ids{0, 3, 1}));
}

TEST_F(HfParts, PlainSpecialTextLeavesOtherAddedTokensAlone) {
  const json content = {{"model", bpe({{"a", 0}, {"<", 1}, {">", 2}})},
                        {"added_tokens",
                         {{{"id", 3}, {"content", "<a>"}, {"special", true}},
                          {{"id", 4}, {"content", ">a"}, {"special", false}}}}};
  EXPECT_EQ(encode(*load(content), "<a>a"), (Ids{3, 0}));
  EXPECT_EQ(encode(*load(content, false), "<a>a"), (Ids{1, 0, 2, 0}));
  EXPECT_EQ(encode(*load(content, false), "a>a"), (Ids{0, 4}));
}

TEST_F(HfParts, MetaspaceAsksForTheFirstCharacterOfTheRawText) {
  const json vocab = {{"\u2581", 0}, {"a", 1}, {"x", 2}};
  const json first = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}};
  const auto with = [&](const json& normalizer) {
    return load({{"model", bpe(vocab)}, {"pre_tokenizer", first}, {"normalizer", normalizer}});
  };
  EXPECT_EQ(encode(*with(nullptr), "a"), (Ids{0, 1}));
  // The normalizer removes the first character, so no piece starts with it.
  EXPECT_EQ(encode(*with({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}}), " a"),
            (Ids{1}));
  const auto replace = [](const std::string& from, const std::string& to) {
    return json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  EXPECT_EQ(encode(*with(replace("xx", "a")), "xxa"), (Ids{1, 1}));
  EXPECT_EQ(encode(*with(replace("x", "a")), "xa"), (Ids{0, 1, 1}));
  EXPECT_EQ(encode(*with({{"type", "Prepend"}, {"prepend", "x"}}), "a"), (Ids{0, 2, 1}));
  // The first character composes with the second before the next normalizer sees them.
  const json compose = {
      {"type", "Sequence"},
      {"normalizers", {{{"type", "NFC"}}, replace("\u00E9", "a"), {{"type", "NFC"}}}}};
  EXPECT_EQ(encode(*with(compose), "e\u0301"), (Ids{0, 1}));
  const json twice = {{"type", "Sequence"},
                      {"normalizers", {{{"type", "NFC"}}, {{"type", "NFC"}}}}};
  EXPECT_EQ(encode(*with(twice), "e\u0301a"), (Ids{0, 1}));
}

TEST_F(HfParts, ModelsWithoutAType) {
  const json vocab = {{"a", 0}, {"?", 1}, {"ab", 2}};
  const auto word = load({{"model", {{"vocab", vocab}, {"unk_token", "?"}}}});
  EXPECT_EQ(encode(*word, "ab"), (Ids{2}));
  EXPECT_EQ(encode(*word, "aa"), (Ids{1}));
  const auto wordpiece = load({{"model",
                                {{"vocab", vocab},
                                 {"unk_token", "?"},
                                 {"continuing_subword_prefix", ""},
                                 {"max_input_chars_per_word", 100}}}});
  EXPECT_EQ(encode(*wordpiece, "aa"), (Ids{0, 0}));
  expect_refused({{"model", {{"vocab", vocab}}}}, "model has no 'type'");
  expect_refused({{"model", {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "!"}}}},
                 "unk_token is not in the vocabulary");
}

// The unknown token replaces missing bytes; WordPiece sees the spelling, too.
TEST_F(HfParts, ByteLevelWithoutAllBytes) {
  json model = bpe({{"a", 0}, {"?", 1}, {"\u00C3", 2}});
  model["unk_token"] = "?";
  EXPECT_EQ(encode(*load({{"model", model}, {"pre_tokenizer", kByteLevel}}), "a\u00E9"),
            (Ids{0, 2, 1}));
  model.erase("unk_token");
  EXPECT_EQ(encode(*load({{"model", model}, {"pre_tokenizer", kByteLevel}}), "a\u00E9"),
            (Ids{0, 2}));
  const json wordpiece = {
      {"type", "WordPiece"}, {"vocab", {{"?", 0}, {"\u0120", 1}, {"##a", 2}}}, {"unk_token", "?"}};
  EXPECT_EQ(encode(*load({{"model", wordpiece}, {"pre_tokenizer", kByteLevel}}), " a"),
            (Ids{1, 2}));
}

// Falcon: parts after ByteLevel see the spelling, in which the byte 0xB2 is a digit.
TEST_F(HfParts, ByteLevelBeforeOtherParts) {
  json vocab = bytes_vocabulary();
  vocab["\u00C2\u00B2"] = 256;
  const json digits = {{"type", "Digits"}, {"individual_digits", false}};
  const json content = {
      {"model", bpe(vocab, {"\u00C2 \u00B2"})},
      {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {kByteLevel, digits}}}},
      {"decoder", {{"type", "ByteLevel"}}}};
  const auto tokenizer = load(content);
  EXPECT_EQ(encode(*tokenizer, "\u00B2"), (Ids{0xC2, 0xB2}));
  EXPECT_EQ(tokenizer->decode(Ids{256, 32}), "\u00B2 ");
  EXPECT_EQ(tokenizer->token_bytes(32), " ");
  EXPECT_EQ(tokenizer->token_id(" "), 32);

  const json normalizer = {{"type", "ByteLevel"}};
  const auto normalized =
      load({{"model", bpe(vocab, {"\u00C2 \u00B2"})}, {"normalizer", normalizer}});
  EXPECT_EQ(encode(*normalized, "\u00B2a"), (Ids{256, 'a'}));
}

TEST_F(HfParts, AffixesOfWords) {
  json model =
      bpe({{"a", 0}, {"b</w>", 1}, {"##b</w>", 2}, {"ab</w>", 3}, {"##a", 4}}, {"a ##b</w>"});
  model["continuing_subword_prefix"] = "##";
  model["end_of_word_suffix"] = "</w>";
  const auto tokenizer = load({{"model", model},
                               {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                               {"decoder", {{"type", "BPEDecoder"}, {"suffix", "</w>"}}}});
  EXPECT_EQ(encode(*tokenizer, "ab aab b"), (Ids{3, 0, 4, 2, 1}));
  EXPECT_EQ(tokenizer->decode(Ids{3, 1}), "ab b");
}

TEST_F(HfParts, DropoutIsRefused) {
  json model = bpe({{"a", 0}});
  model["dropout"] = 0.1;
  expect_refused({{"model", model}}, "ids would be drawn at random");
  model["dropout"] = 0.0;
  EXPECT_EQ(load({{"model", model}})->vocab_size(), 1);
}

TEST_F(HfParts, EmptyMatchesCut) {
  // Matches before every third digit from the right.
  EXPECT_EQ(pieces(split(R"((?=(\d{3})+(?!\d)))"), "1234567"), 3u);
  EXPECT_EQ(
      pieces({{"type", "Split"}, {"pattern", {{"String", ""}}}, {"behavior", "Isolated"}}, "abc"),
      3u);
}

// The reference fails here, or repeats the inserted text.
TEST_F(HfParts, InsertingBeforeATextThatIsRewrittenIsRefused) {
  const json insert = {{"type", "Replace"}, {"pattern", {{"Regex", "^"}}}, {"content", "a"}};
  const json model = bpe({{"a", 0}, {"x", 1}});
  const auto plain = load({{"model", model}, {"normalizer", insert}});
  EXPECT_EQ(encode(*plain, "x"), (Ids{0, 1}));
  const auto spelled =
      load({{"model", model}, {"normalizer", insert}, {"pre_tokenizer", kByteLevel}});
  EXPECT_THROW(encode(*spelled, "x"), Error);
}

struct Cut {
  const char* regex;
  const char* text;
  std::size_t pieces;
};

// Constructs that Oniguruma interprets differently than Perl.
TEST_F(HfParts, RegularExpressionsAreOnigurumas) {
  const Cut cuts[] = {
      {R"([a-z&&[^b]]+)", "abab", 4},           // an intersection
      {R"(^b)", "a\nb", 2},                     // line anchors
      {R"(a{1,2}+)", "aaaaa", 1},               // not possessive, but repeated
      {R"(\h)", "gaga", 4},                     // a hexadecimal digit
      {R"((?m)a.b)", "xa\nbx", 3},              // the dot matches newlines
      {R"((?i)ss)", "x\u00DFx", 3},             // sharp s is a case of ss
      {R"([a[b]]+)", "xabx", 3},                // a nested set
      {R"(a{,2})", "xaaax", 4},                 // up to two
      {R"([[:punct:]])", "a$b", 3},             // with symbols, since 6.9.9
      {R"(\p{Han}+)", "\u4E00\u3001", 2},       // the script without extensions
      {R"([\p{P}\p{S}]+)", "a\U0001FA77b", 3},  // U+1FA77: newer than Unicode 14
      {R"(\p{Lu})", "a\u1C89b", 3},
  };
  for (const Cut& cut : cuts) {
    EXPECT_EQ(pieces(split(cut.regex), cut.text), cut.pieces) << cut.regex;
  }
}

TEST_F(HfParts, RegularExpressionsThatAreNotCertainAreRefused) {
  const auto refused = [&](const std::string& regex, const std::string& message) {
    expect_refused({{"model", bpe({{"a", 0}})}, {"pre_tokenizer", split(regex)}}, message);
  };
  refused(R"(a\z)", "uses \\z");
  refused(R"((?(a)b|c))", "a condition");
  refused(R"((?~ab))", "an absent group");
  refused(R"((*FAIL))", "a callout");
  refused(R"((?Ii)a)", "the option (?Ii)");
  refused(R"([[:nothing:]])", "outside of a POSIX bracket");
  refused(R"(\p{PosixPunct})", "\\p{posixpunct}");
  refused(R"(\p{NoSuchScript})", "does not compile");
}

TEST_F(HfParts, HostileRegularExpressionsEnd) {
  const auto refused = [&](const std::string& regex, const std::string& text) {
    try {
      pieces(split(regex), text);
      ADD_FAILURE() << "accepted: " << regex;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_THAT(error.what(), HasSubstr("the regular expression gives up on a text of"));
    }
  };
  std::string text(60, 'a');
  text += "cb";
  refused("(a+a+)+(?<=a)b", text);
  EXPECT_EQ(pieces(split("(a+a+)+b"), text), 1u);  // one pass scans it
}

// A tokenizer.json in a folder of its own, with the files in which transformers looks for more. The
// ids are from transformers 5.23.
class HfCompanions : public testing::Test {
 protected:
  HfCompanions() {
    fs::create_directories(folder_);
    json vocab = bytes_vocabulary();
    vocab["ab"] = 256;
    json tokenizer = {{"model", bpe(vocab, {"a b"})}, {"pre_tokenizer", kByteLevel}};
    tokenizer["added_tokens"] = {{{"id", 257}, {"content", "<end>"}, {"normalized", false}}};
    write("tokenizer.json", tokenizer);
  }
  ~HfCompanions() override { fs::remove_all(folder_); }

  void write(const char* name, const json& content) const {
    write_file_durably(folder_ / name, content.dump());
  }
  std::unique_ptr<Tokenizer> load() const {
    return make_tokenizer({.type = "hf", .model_file = folder_.string()});
  }
  Ids encode(std::string_view text) const {
    Ids ids;
    load()->encode(text, ids);
    return ids;
  }
  void expect_refused(const std::string& message) const {
    try {
      load();
      ADD_FAILURE() << "accepted; expected: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }

  const fs::path folder_ = fs::temp_directory_path() / "trireme_hf_companions";
};

TEST_F(HfCompanions, NamedTokensThatTheFileLacksAreAdded) {
  EXPECT_EQ(encode("ab<end>").size(), 2);
  write("tokenizer_config.json", {{"pad_token", "<pad>"},
                                  {"bos_token", {{"content", "<bos>"}, {"normalized", false}}},
                                  {"eos_token", "<end>"},
                                  {"additional_special_tokens", {"<new>"}}});
  EXPECT_EQ(encode("<new><pad>ab<bos><end>"), (Ids{260, 259, 256, 258, 257}));
  EXPECT_EQ(load()->vocab_size(), 261);
  EXPECT_EQ(load()->special().pad, 259);
  // A token of the vocabulary becomes one that is found before the text is split.
  write("tokenizer_config.json", {{"pad_token", "b"}});
  EXPECT_EQ(encode("ab"), (Ids{'a', 'b'}));
}

TEST_F(HfCompanions, ListedTokensAreAddedAndReplaceOptions) {
  const json token = {{"content", "<new>"}, {"normalized", false}};
  const json end = {{"content", "<end>"}, {"lstrip", true}, {"normalized", false}};
  write("tokenizer_config.json", {{"added_tokens_decoder", {{"258", token}, {"257", end}}}});
  EXPECT_EQ(encode("a  <end><new>"), (Ids{'a', 257, 258}));
  // The older files count only without that list.
  write("special_tokens_map.json", {{"pad_token", "<pad>"}});
  EXPECT_EQ(load()->vocab_size(), 259);
  write("tokenizer_config.json", {{"added_tokens_decoder", {{"300", token}}}});
  expect_refused("gives '<new>' the id 300, but the next free one");
  write("tokenizer_config.json", {{"added_tokens_decoder", {{"3", end}}}});
  expect_refused("gives '<end>' the id 3, but");
}

TEST_F(HfCompanions, OlderFilesAddTokensAndNameThem) {
  write("added_tokens.json", {{"<new>", 259}, {"<pad>", 258}});
  EXPECT_EQ(encode("<new><pad>"), (Ids{259, 258}));
  const std::uint64_t before = load()->fingerprint();
  write("special_tokens_map.json", {{"eos_token", "<new>"}});
  EXPECT_EQ(load()->special().eos, 259);
  EXPECT_NE(load()->fingerprint(), before);
}

TEST_F(HfCompanions, FilesThatAddNothingLeaveTheFingerprintAlone) {
  write("tokenizer_config.json", {{"eos_token", "<end>"}});
  const std::uint64_t before = load()->fingerprint();
  write("special_tokens_map.json", {{"eos_token", "<end>"}});
  write("added_tokens.json", {{"<end>", 257}});
  EXPECT_EQ(load()->fingerprint(), before);
}

TEST_F(HfCompanions, ListsOfBothFilesAreJoinedWherePossible) {
  write("tokenizer_config.json", {{"extra_special_tokens", {{"image", "<a>"}}}});
  write("special_tokens_map.json", {{"extra_special_tokens", {"<b>"}}});
  EXPECT_EQ(encode("<b><a>"), (Ids{259, 258}));
  // Of these, versions of transformers take other ones.
  write("tokenizer_config.json", {{"additional_special_tokens", {"<a>"}}});
  write("special_tokens_map.json", {{"additional_special_tokens", {"<a>"}}});
  EXPECT_EQ(encode("<a>"), (Ids{258}));
  write("special_tokens_map.json", {{"additional_special_tokens", {"<b>"}}});
  expect_refused("names the token '<b>'");
  fs::remove(folder_ / "special_tokens_map.json");
  write("tokenizer_config.json",
        {{"additional_special_tokens", {"<b>"}}, {"extra_special_tokens", {"<a>"}}});
  expect_refused("names the token '<b>'");
  write("tokenizer_config.json",
        {{"additional_special_tokens", {"<end>"}}, {"extra_special_tokens", {"<a>"}}});
  EXPECT_EQ(encode("<a><end>"), (Ids{258, 257}));
}

TEST_F(HfCompanions, ANullOfTheOlderFileReplacesAName) {
  write("tokenizer_config.json", {{"eos_token", "<end>"}});
  const std::uint64_t before = load()->fingerprint();
  write("special_tokens_map.json", {{"eos_token", nullptr}});
  EXPECT_EQ(load()->special().eos, -1);
  EXPECT_NE(load()->fingerprint(), before);
}

TEST_F(HfCompanions, TheMarkInPromptsOfCodeLlamaIsNoToken) {
  write("tokenizer_config.json",
        {{"tokenizer_class", "CodeLlamaTokenizer"}, {"fill_token", "<FILL_ME>"}});
  EXPECT_EQ(load()->vocab_size(), 258);
  write("tokenizer_config.json", {{"fill_token", "<FILL_ME>"}});
  expect_refused("fill_token names the token '<FILL_ME>'");
  write("tokenizer_config.json", {{"prefix_token", "ab"}});
  expect_refused("does not have as an added token");
}

TEST_F(HfCompanions, SpecialTokensMayStayText) {
  write("tokenizer_config.json",
        {{"eos_token", "<end>"}, {"pad_token", "<pad>"}, {"split_special_tokens", true}});
  EXPECT_EQ(encode("<pad>"), (Ids{'<', 'p', 'a', 'd', '>'}));
}

TEST_F(HfCompanions, SettingsThatContradictTheFileAreRefused) {
  write("tokenizer_config.json", {{"add_prefix_space", false}});
  EXPECT_EQ(encode("ab"), (Ids{256}));
  write("tokenizer_config.json", {{"add_prefix_space", true}});
  expect_refused("add_prefix_space is true, but '");
  write("tokenizer_config.json", {{"image_token", "<end>"}});
  EXPECT_EQ(encode("ab"), (Ids{256}));
  write("tokenizer_config.json", {{"image_token", "<image>"}});
  expect_refused("image_token names the token '<image>'");
  json tokenizer = json::parse(read_file(folder_ / "tokenizer.json"));
  tokenizer["normalizer"] = {{"type", "BertNormalizer"}, {"strip_accents", false}};
  write("tokenizer.json", tokenizer);
  write("tokenizer_config.json", {{"strip_accents", nullptr}});
  expect_refused("strip_accents is null, but '");
  write("tokenizer_config.json", {{"do_lower_case", false}});
  expect_refused("do_lower_case is false, but '");
  write("tokenizer_config.json", {{"do_lower_case", true}, {"strip_accents", false}});
  EXPECT_EQ(encode("AB"), (Ids{256}));
}

}  // namespace
}  // namespace trireme
