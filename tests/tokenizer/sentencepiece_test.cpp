// Tests of SentencePiece: our encoder against the library, on random models and texts.
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "growth.h"
#include "tokenizer/random_text.h"
#include "tokenizer/sentencepiece/bpe.h"
#include "tokenizer/sentencepiece/unigram.h"
#include "tokenizer/sentencepiece_models.h"
#include "tokenizer/tokenizer.h"

namespace trireme {
namespace {

using Ids = std::vector<std::int32_t>;

enum Type : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

std::string golden_model() {
  return read_file(fs::path(TRIREME_TEST_DATA) / "sentencepiece.model");
}

// The table of NMT's NFKC normalization rules.
std::string nmt_charsmap() {
  const std::string model = golden_model();
  return std::string(sentencepiece_charsmaps(model)->front());
}

// Models of a few characters, with all combinations of pieces, user-defined symbols, spaces and
// control symbols.
class RandomModel {
 public:
  explicit RandomModel(std::uint64_t seed) : random_(seed) {
    static const std::string table = nmt_charsmap();
    add("<unk>", unknown);
    add("<s>", control);
    add("</s>", control);
    if (one_in(10)) add("<", control);
    byte_fallback_ = one_in(3);
    for (int b = 0; byte_fallback_ && b < 256; ++b) add(fmt::format("<0x{:02X}>", b), byte);
    for (const std::string& character : alphabet) {
      if (!one_in(6)) add(character, one_in(12) ? user_defined : normal);
    }
    const int count = 1 + static_cast<int>(below(60));
    const bool spaces_in_front = one_in(2), with_unused = one_in(8), with_user = one_in(2);
    for (int i = 0; i < count; ++i) {
      std::string text = some_text() + some_text();
      if (one_in(400)) text = "<s>";
      if (spaces_in_front && text.find("\u2581", 1) != text.npos) continue;
      add(text, with_unused && one_in(5) ? unused : with_user && one_in(5) ? user_defined : normal);
    }
    const std::size_t maps = below(5);
    charsmap_ = maps == 0   ? table
                : maps == 1 ? charsmap(one_letter_trie(0), std::string("a  b\0", 5))
                : maps == 2 ? charsmap(one_letter_trie(0), std::string("\0", 1))
                : maps == 3 ? charsmap(one_letter_trie(0), std::string(" \0", 2))
                            : "";
  }

  std::string bytes(std::size_t kind = 2) {
    std::string out;
    const bool ties = one_in(2);
    for (const auto& [text, type] : pieces_) {
      const auto score = static_cast<float>(ties ? below(4) : below(1000)) / 7;
      out += piece(text, -score, type);
    }
    out += field(
        2, number_field(3, kind) + number_field(24, one_in(4)) + number_field(35, byte_fallback_));
    return out + field(3, field(1, "own") + (charsmap_.empty() ? "" : field(2, charsmap_)) +
                              number_field(3, !one_in(3)) + number_field(4, !one_in(3)) +
                              number_field(5, !one_in(6)));
  }

  std::string text() {
    std::string text;
    const std::size_t kinds = 1 + below(alphabet.size() + 4);
    const std::size_t length = one_in(20) ? 400 : below(40);
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t kind = below(kinds);
      if (kind < alphabet.size()) {
        text += alphabet[kind];
      } else if (kind == alphabet.size()) {
        text += one_in(2) ? "<s>" : "  ";
      } else if (kind == alphabet.size() + 1) {
        text += static_cast<char>(below(256));
      } else if (kind == alphabet.size() + 2) {
        text += pieces_[below(pieces_.size())].first;
      } else {
        text += one_in(2) ? "\t" : std::string(1, '\0');
      }
    }
    return text;
  }

 private:
  static const std::vector<std::string> alphabet;

  std::size_t below(std::size_t n) { return random_() % n; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  // Returns an existing piece or a character.
  std::string some_text() {
    if (pieces_.size() > 3 && !one_in(3)) {
      const auto& [text, type] = pieces_[below(pieces_.size())];
      if (type == normal || type == user_defined) return text;
    }
    return alphabet[below(alphabet.size())];
  }
  void add(const std::string& text, Type type) {
    const bool in_text = type == normal || type == user_defined || type == unused;
    if (texts_[in_text].insert(text).second) pieces_.emplace_back(text, type);
  }

  std::mt19937_64 random_;
  std::vector<std::pair<std::string, Type>> pieces_;
  std::map<bool, std::set<std::string>> texts_;
  bool byte_fallback_ = false;
  std::string charsmap_;
};

const std::vector<std::string> RandomModel::alphabet = {
    "a", "b", "\u2581", " ", "c", "\u00e9", "T", "<", "s", ">", "\u5b57", "\U0001F600", "\u0301"};

Ids by_library(const sentencepiece::SentencePieceProcessor& library, std::string_view text) {
  std::vector<int> ids;
  EXPECT_TRUE(library.Encode(text, &ids).ok()) << text;
  return {ids.begin(), ids.end()};
}

// Returns our encoder of a model; null if the library has to encode.
std::unique_ptr<SentencePieceBpe> encoder_of(const std::string& model) {
  const auto parsed = parse_sentencepiece(model);
  return parsed ? SentencePieceBpe::make(*parsed) : nullptr;
}

TEST(SentencePieceBpe, EncodesAsTheLibrary) {
  int ours = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    RandomModel random(seed);
    const std::string model = random.bytes();
    sentencepiece::SentencePieceProcessor library;
    ASSERT_TRUE(library.LoadFromSerializedProto(model).ok()) << seed;
    const auto encoder = encoder_of(model);
    if (!encoder) continue;
    ++ours;
    for (int i = 0; i < 40; ++i) {
      const std::string text = random.text();
      Ids ids;
      encoder->encode(text, ids);
      ASSERT_EQ(ids, by_library(library, text)) << "model " << seed << ", text '" << text << "'";
    }
  }
  EXPECT_GT(ours, 250);
}

TEST(SentencePieceBpe, EncodesEveryKindOfTextAsTheLibrary) {
  const std::string model = golden_model();
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.LoadFromSerializedProto(model).ok());
  const auto encoder = encoder_of(model);
  ASSERT_TRUE(encoder);
  RandomText random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = i % 10 == 0 ? random.bytes(60) : random.next(120);
    Ids ids;
    encoder->encode(text, ids);
    ASSERT_EQ(ids, by_library(library, text)) << text;
  }
}

TEST(SentencePieceBpe, LeavesUncertainModelsToTheLibrary) {
  EXPECT_TRUE(encoder_of(sentencepiece_model(2)));
  for (const std::size_t kind : {1, 3, 4}) EXPECT_FALSE(encoder_of(sentencepiece_model(kind)));
  const std::string bpe = sentencepiece_model(2);
  EXPECT_FALSE(encoder_of(bpe + piece("he", -1, unused)));
  EXPECT_FALSE(encoder_of(bpe + piece("<s>", -1, normal)));
  EXPECT_FALSE(encoder_of(bpe + piece("x", 0, control)));
  EXPECT_FALSE(encoder_of(bpe + piece("\xff", -1, normal)));
  EXPECT_FALSE(encoder_of(bpe + piece("he", std::nanf(""), normal)));
  EXPECT_FALSE(encoder_of(bpe + field(2, number_field(3, 2))));
}

// Long words with equal scores everywhere must not take quadratic time.
TEST(SentencePieceBpe, LongWordsTakeTheirTimeOnce) {
  const std::string model = sentencepiece_model(2) + piece("tt", -1, normal) +
                            piece("tttt", -1, normal) + piece("tth", -1, normal);
  const auto encoder = encoder_of(model);
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.LoadFromSerializedProto(model).ok());
  const auto encode = [&](int length) {
    std::string text(static_cast<std::size_t>(length), 't');
    for (std::size_t i = 0; i < text.size(); i += 7) text[i] = 'h';
    Ids ids;
    encoder->encode(text, ids);
    EXPECT_FALSE(ids.empty());
  };
  EXPECT_LT(growth_over_8(encode, 5'000), subquadratic);
  std::string text(40'000, 't');
  for (std::size_t i = 0; i < text.size(); i += 7) text[i] = 'h';
  Ids ids;
  encoder->encode(text, ids);
  EXPECT_EQ(ids, by_library(library, text));
}

// Among equal scores the leftmost pair is merged first, including one that a merge has just
// created: after "th", "the" precedes the "et" further right, and "eth" precedes "the".
TEST(SentencePieceBpe, EqualScoresGoFromTheLeftInLongWordsToo) {
  for (const char* other : {"et", "eth"}) {
    const std::string model =
        sentencepiece_model(2) + piece("the", -2, normal) + piece(other, -2, normal);
    const auto encoder = encoder_of(model);
    sentencepiece::SentencePieceProcessor library;
    ASSERT_TRUE(library.LoadFromSerializedProto(model).ok());
    for (const int times : {3, 200}) {
      std::string text = "e";
      for (int i = 0; i < times; ++i) text += "the";
      for (const std::string& one : {text, text.substr(1)}) {
        Ids ids;
        encoder->encode(one, ids);
        EXPECT_EQ(ids, by_library(library, one)) << other << " " << times;
      }
    }
  }
}

std::unique_ptr<SentencePieceUnigram> unigram_of(const std::string& model) {
  const auto parsed = parse_sentencepiece(model);
  return parsed ? SentencePieceUnigram::make(*parsed) : nullptr;
}

// The library that this is linked with is of a version that ties as the encoder does.
TEST(SentencePieceUnigram, EncodesAsTheLibrary) {
  int ours = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    RandomModel random(seed);
    const std::string model = random.bytes(1);
    sentencepiece::SentencePieceProcessor library;
    ASSERT_TRUE(library.LoadFromSerializedProto(model).ok()) << seed;
    const auto encoder = unigram_of(model);
    if (!encoder) continue;
    ++ours;
    for (int i = 0; i < 40; ++i) {
      const std::string text = random.text();
      Ids ids;
      encoder->encode(text, ids);
      ASSERT_EQ(ids, by_library(library, text)) << "model " << seed << ", text '" << text << "'";
    }
  }
  EXPECT_GT(ours, 250);
}

// In fp32, "ddd" and "d" have the same total in either order. Version 0.2.3 of the library takes
// the other order.
TEST(SentencePieceUnigram, TiesAreThoseOfVersionsUpTo021) {
  const std::string model = piece("<unk>", 0, unknown) + piece("d", -2.025615231186104F, normal) +
                            piece("ddd", -2.91F, normal) + field(2, number_field(3, 1)) +
                            field(3, field(1, "own") + number_field(3, 0));
  const auto encoder = unigram_of(model);
  ASSERT_TRUE(encoder);
  Ids ids;
  encoder->encode("dddd", ids);
  EXPECT_EQ(ids, (Ids{2, 1}));
}

TEST(SentencePieceUnigram, LeavesUncertainModelsToTheLibrary) {
  const std::string unigram = sentencepiece_model(1);
  EXPECT_TRUE(unigram_of(unigram));
  EXPECT_TRUE(unigram_of(unigram + piece("he", -1, unused)));
  for (const std::size_t kind : {2, 3, 4}) EXPECT_FALSE(unigram_of(sentencepiece_model(kind)));
  EXPECT_FALSE(unigram_of(unigram + piece("<s>", -1, normal)));
  EXPECT_FALSE(unigram_of(unigram + piece("\xff", -1, normal)));
  EXPECT_FALSE(unigram_of(unigram + piece("he", -INFINITY, normal)));
}

// A word model cannot encode a word that is spelled like a control symbol.
TEST(SentencePiece, SaysWhichTextAModelCannotEncode) {
  const fs::path path = fs::path(testing::TempDir()) / fmt::format("words.{}.model", ::getpid());
  write_file_durably(path, sentencepiece_model(3) + field(3, number_field(3, 0)));
  const auto words = make_tokenizer({.type = "sentencepiece", .model_file = path.string()});
  fs::remove(path);
  Ids ids;
  words->encode("the", ids);
  try {
    words->encode("<s> the", ids);
    FAIL() << "encoded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    EXPECT_NE(std::string(error.what()).find("control symbol"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace trireme
