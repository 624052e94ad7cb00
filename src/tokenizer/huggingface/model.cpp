// Reads the model of a tokenizer.json.
#include "tokenizer/huggingface/model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "tokenizer/bpe/byte_alphabet.h"
#include "tokenizer/bpe/char_bpe.h"
#include "tokenizer/utf8.h"
#include "tokenizer/wordpiece/wordpiece.h"

namespace trireme {
namespace {

using Made = std::unique_ptr<HfModel>;

class ByteBpeModel : public HfModel {
 public:
  // `outside`: tokens that are not in the alphabet of bytes, as the file spells them.
  ByteBpeModel(ByteBpe bpe, std::unordered_map<std::string, std::int32_t> outside)
      : bpe_(std::move(bpe)), outside_(std::move(outside)) {}
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    bpe_.encode(std::span<const Regex>(), piece, ids);
  }
  const Vocabulary& vocabulary() const override { return bpe_.vocabulary(); }
  const ByteBpe* byte_bpe() const override { return &bpe_; }
  std::int32_t id_of_spelling(std::string_view token) const override {
    if (const auto bytes = unspell_bytes(token)) return bpe_.vocabulary().find(*bytes);
    const auto found = outside_.find(std::string(token));
    return found == outside_.end() ? -1 : found->second;
  }

 private:
  ByteBpe bpe_;
  std::unordered_map<std::string, std::int32_t> outside_;
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

// Each piece is a token or unknown.
class WordLevelModel : public HfModel {
 public:
  WordLevelModel(Vocabulary vocabulary, std::int32_t unknown)
      : vocabulary_(std::move(vocabulary)), unknown_(unknown) {}
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const override {
    const std::int32_t id = vocabulary_.find(piece);
    ids.push_back(id >= 0 ? id : unknown_);
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::int32_t unknown() const override { return unknown_; }

 private:
  Vocabulary vocabulary_;
  std::int32_t unknown_;
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
  if (vocabulary.count() == 0) place.refuse("contains no tokens");
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

// Spelling of the tokens of a BPE.
struct Spelling {
  bool byte_level = false;
  std::string prefix;  // of tokens that continue a word
};

MergeTable read_merges(const JsonPlace& place, const Vocabulary& vocabulary,
                       const Spelling& spelling) {
  MergeTable merges;
  const std::size_t count = place.size();
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const JsonPlace line = place.at(i);
    if (line.is_text() && line.text().starts_with("#version")) continue;
    const auto [left, right] = read_merge(line);
    const auto id_of = [&](const std::string& token) {
      const auto bytes = spelling.byte_level ? unspell_bytes(token) : token;
      const std::int32_t id = bytes ? vocabulary.find(*bytes) : -1;
      if (id < 0) line.refuse(fmt::format("names '{}', which is not in the vocabulary", token));
      return id;
    };
    const std::int32_t first = id_of(left);
    const std::int32_t second = id_of(right);
    if (!right.starts_with(spelling.prefix)) {
      line.refuse(fmt::format("names '{}', which does not begin with the continuing_subword_prefix",
                              right));
    }
    const std::int32_t merged = id_of(left + right.substr(spelling.prefix.size()));
    if (!merges.add(first, second, {rank++, merged})) {
      line.refuse(fmt::format("repeats the merge of '{}' and '{}'", left, right));
    }
  }
  return merges;
}

Made make_byte_bpe(const JsonPlace& place) {
  Vocabulary vocabulary = read_vocabulary(place.at("vocab"), true);
  MergeTable merges = read_merges(place.at("merges"), vocabulary, {.byte_level = true});
  std::unordered_map<std::string, std::int32_t> outside;
  for (const auto& [token, id] : place.at("vocab").value().items()) {
    if (!unspell_bytes(token)) outside.emplace(token, id.get<std::int32_t>());
  }
  const bool whole_pieces = place.flag_or("ignore_merges", false);
  return std::make_unique<ByteBpeModel>(
      ByteBpe(std::move(vocabulary), std::move(merges), whole_pieces), std::move(outside));
}

Made make_bpe(const JsonPlace& place, bool byte_level) {
  if (place.has("dropout") && place.at("dropout").value() != 0) {
    place.at("dropout").refuse("is not 0, so that ids would be drawn at random; set it to null");
  }
  if (byte_level) return make_byte_bpe(place);
  CharBpe::Options options{.byte_fallback = place.flag_or("byte_fallback", false),
                           .fuse_unknown = place.flag_or("fuse_unk", false),
                           .whole_pieces = place.flag_or("ignore_merges", false),
                           .prefix = place.text_or("continuing_subword_prefix", ""),
                           .suffix = place.text_or("end_of_word_suffix", "")};
  Vocabulary vocabulary = read_vocabulary(place.at("vocab"), false);
  MergeTable merges = read_merges(place.at("merges"), vocabulary, {.prefix = options.prefix});
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

Made make_word_level(const JsonPlace& place) {
  Vocabulary vocabulary = read_vocabulary(place.at("vocab"), false);
  const std::int32_t unknown = vocabulary.find(place.at("unk_token").text());
  if (unknown < 0) place.at("unk_token").refuse("is not in the vocabulary");
  return std::make_unique<WordLevelModel>(std::move(vocabulary), unknown);
}

// Older files do not name the type; the reference takes the first whose fields are all there.
std::string type_of(const JsonPlace& model) {
  if (model.has("type")) return model.at("type").text();
  if (model.has("merges")) return "BPE";
  if (model.has("continuing_subword_prefix") && model.has("max_input_chars_per_word")) {
    return "WordPiece";
  }
  if (model.has("unk_token")) return "WordLevel";
  model.refuse("has no 'type', and neither the fields of a BPE, a WordPiece nor a WordLevel model");
}

}  // namespace

bool can_work_on_bytes(const JsonPlace& model) {
  if (!model.value().is_object() || type_of(model) != "BPE") return false;
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.text_or(affix, "").empty()) return false;
  }
  if (!model.has("unk_token") && !model.flag_or("byte_fallback", false)) return true;
  const JsonPlace vocabulary = model.at("vocab");
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (!vocabulary.has(spell_bytes({&text, 1}))) return false;
  }
  return true;
}

Made make_hf_model(const JsonPlace& place, bool byte_level) {
  const std::string type = type_of(place);
  if (type == "BPE") return make_bpe(place, byte_level);
  if (type == "WordPiece") return make_wordpiece(place);
  if (type == "WordLevel") return make_word_level(place);
  if (type == "Unigram") {
    place.refuse(
        "is of type 'Unigram', which is not supported; use the SentencePiece .model file with "
        "--tokenizer-type sentencepiece");
  }
  place.refuse(fmt::format(
      "is of type '{}', which is not supported; supported are BPE, WordPiece and WordLevel", type));
}

}  // namespace trireme
