// Reads the model of a tokenizer.json.
#include "tokenizer/hf_model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/char_bpe.h"
#include "tokenizer/utf8.h"
#include "tokenizer/wordpiece.h"

namespace trireme {
namespace {

using Made = std::unique_ptr<HfModel>;

class ByteBpeModel : public HfModel {
 public:
  explicit ByteBpeModel(ByteBpe bpe) : bpe_(std::move(bpe)) {}
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    bpe_.encode_piece(piece, ids);
  }
  const Vocabulary& vocabulary() const override { return bpe_.vocabulary(); }
  const ByteBpe* byte_bpe() const override { return &bpe_; }

 private:
  ByteBpe bpe_;
};

class CharBpeModel : public HfModel {
 public:
  explicit CharBpeModel(CharBpe bpe) : bpe_(std::move(bpe)) {}
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    bpe_.encode(piece, ids);
  }
  const Vocabulary& vocabulary() const override { return bpe_.vocabulary(); }
  std::int32_t unknown() const override { return bpe_.unknown(); }

 private:
  CharBpe bpe_;
};

class WordPieceModel : public HfModel {
 public:
  explicit WordPieceModel(WordPiece model) : model_(std::move(model)) {}
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    model_.encode(piece, ids);
  }
  const Vocabulary& vocabulary() const override { return model_.vocabulary(); }
  std::int32_t unknown() const override { return model_.unknown(); }

 private:
  WordPiece model_;
};

// An object of tokens and ids. In a byte-level vocabulary a token that is not in the alphabet of
// bytes can only be an added token: it has its id, but no text becomes it through the model.
Vocabulary read_vocabulary(const JsonPlace& place, bool byte_level) {
  Vocabulary vocabulary;
  if (!place.value().is_object()) place.refuse_kind("an object of tokens and ids");
  const std::size_t limit = most_ids(place.size());
  for (const auto& [token, value] : place.value().items()) {
    const std::int32_t id = place.at(token).id();
    if (static_cast<std::size_t>(id) >= limit) {
      place.at(token).refuse(fmt::format("is too large for {} tokens", place.size()));
    }
    if (vocabulary.has(id)) {
      const std::string_view other = vocabulary.bytes(id);
      place.refuse(fmt::format("gives the id {} to '{}' and to '{}'", id,
                               byte_level ? spell_bytes(other) : std::string(other), token));
    }
    const auto bytes = byte_level ? unspell_bytes(token) : token;
    if (bytes) {
      vocabulary.add(id, *bytes);
    } else {
      vocabulary.add_hidden(id, token);
    }
  }
  if (vocabulary.count() == 0) place.refuse("holds no tokens");
  return vocabulary;
}

// A merge is "left right" or ["left", "right"].
std::pair<std::string, std::string> read_merge(const JsonPlace& place) {
  if (!place.is_text()) {
    if (place.size() != 2) place.refuse("is not a pair of tokens");
    return {place.at(std::size_t{0}).text(), place.at(std::size_t{1}).text()};
  }
  const std::string& text = place.text();
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    place.refuse(fmt::format("is '{}' and not two tokens with a space between them", text));
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

MergeTable read_merges(const JsonPlace& place, const Vocabulary& vocabulary, bool byte_level) {
  MergeTable merges;
  const std::size_t count = place.size();
  for (std::size_t rank = 0; rank < count; ++rank) {
    const JsonPlace line = place.at(rank);
    const auto [left, right] = read_merge(line);
    const auto id_of = [&](const std::string& token) {
      const auto bytes = byte_level ? unspell_bytes(token) : token;
      const std::int32_t id = bytes ? vocabulary.find(*bytes) : -1;
      if (id < 0) line.refuse(fmt::format("names '{}', which is not in the vocabulary", token));
      return id;
    };
    const std::int32_t first = id_of(left);
    const std::int32_t second = id_of(right);
    const std::int32_t merged = id_of(left + right);
    if (!merges.add(first, second, {static_cast<std::uint32_t>(rank), merged})) {
      line.refuse(fmt::format("repeats the merge of '{}' and '{}'", left, right));
    }
  }
  return merges;
}

Made make_bpe(const JsonPlace& place, bool byte_level) {
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!place.text_or(affix, "").empty()) {
      place.refuse(fmt::format("has a {}, which is not supported", affix));
    }
  }
  Vocabulary vocabulary = read_vocabulary(place.at("vocab"), byte_level);
  MergeTable merges = read_merges(place.at("merges"), vocabulary, byte_level);
  const bool whole_pieces = place.flag_or("ignore_merges", false);
  if (byte_level) {
    return std::make_unique<ByteBpeModel>(
        ByteBpe(std::move(vocabulary), std::move(merges), whole_pieces));
  }
  CharBpe::Options options{.byte_fallback = place.flag_or("byte_fallback", false),
                           .fuse_unknown = place.flag_or("fuse_unk", false),
                           .whole_pieces = whole_pieces};
  if (place.has("unk_token")) {
    options.unknown = vocabulary.find(place.at("unk_token").text());
    if (options.unknown < 0) place.at("unk_token").refuse("is not in the vocabulary");
  }
  return std::make_unique<CharBpeModel>(CharBpe(std::move(vocabulary), std::move(merges), options));
}

Made make_wordpiece(const JsonPlace& place) {
  WordPiece::Options options{.unknown = place.text_or("unk_token", "[UNK]"),
                             .prefix = place.text_or("continuing_subword_prefix", "##"),
                             .max_characters = place.count_or("max_input_chars_per_word", 100)};
  return std::make_unique<WordPieceModel>(
      WordPiece(read_vocabulary(place.at("vocab"), false), options, place.file()));
}

}  // namespace

Made make_hf_model(const JsonPlace& place, bool byte_level) {
  const std::string absent = place.has("merges") ? "BPE" : "WordPiece";
  const std::string type = place.text_or("type", absent);
  if (type == "BPE") return make_bpe(place, byte_level);
  if (type == "WordPiece") return make_wordpiece(place);
  if (type == "Unigram") {
    place.refuse(
        "is of type 'Unigram', which is not supported; use the SentencePiece .model file "
        "with --tokenizer-type sentencepiece");
  }
  place.refuse(fmt::format(
      "is of type '{}', which is not supported; supported are BPE and WordPiece", type));
}

}  // namespace trireme
