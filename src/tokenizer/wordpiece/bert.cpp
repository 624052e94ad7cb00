// BERT: special tokens are cut out, the rest is normalized, split into words and spelled.
#include "tokenizer/wordpiece/bert.h"

#include "base/error.h"
#include "base/file.h"
#include "base/foreign_bytes.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/fingerprint.h"
#include "tokenizer/vocabulary_lines.h"
#include "tokenizer/wordpiece/bert_text.h"
#include "tokenizer/wordpiece/wordpiece.h"

namespace trireme {
namespace {

constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 28;

class BertTokenizer : public Tokenizer {
 public:
  BertTokenizer(WordPiece model, bool lowercase, std::vector<AddedToken> added,
                const SpecialIds& special, bool special_text, std::uint64_t fingerprint)
      : model_(std::move(model)),
        normalizer_{.lowercase = lowercase},
        added_(std::move(added)),
        special_text_(special_text) {
    vocab_size_ = model_.vocabulary().size();
    special_ = special;
    fingerprint_ = fingerprint;
  }

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    if (!special_text_) return encode_plain(text, ids);
    added_.cut(
        text, [&](std::string_view stretch) { encode_plain(stretch, ids); },
        [&](const AddedToken& token) { ids.push_back(token.id); });
  }

  Encoding encode_with_special(std::string_view text,
                               std::optional<std::string_view> pair) const override {
    Encoding out{{special_.cls}, {}};
    encode(text, out.ids);
    out.ids.push_back(special_.sep);
    out.type_ids.assign(out.ids.size(), 0);
    if (pair) {
      encode(*pair, out.ids);
      out.ids.push_back(special_.sep);
      out.type_ids.resize(out.ids.size(), 1);
    }
    return out;
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    std::vector<std::string> tokens;
    for (const std::int32_t id : ids) {
      check_id(id);
      if (!skip_special || !is_special(id)) tokens.emplace_back(model_.vocabulary().bytes(id));
    }
    return join_wordpieces(tokens, "##", true);
  }

  std::string token_bytes(std::int32_t id) const override {
    check_id(id);
    return std::string(model_.vocabulary().bytes(id));
  }

  std::int32_t token_id(std::string_view bytes) const override {
    return model_.vocabulary().find(bytes);
  }

 private:
  void encode_plain(std::string_view text, std::vector<std::int32_t>& ids) const {
    split_bert_words(normalizer_.apply(text), *normalizer_.unicode,
                     [&](std::string_view word) { model_.encode(word, ids); });
  }

  bool is_special(std::int32_t id) const {
    return id == special_.pad || id == special_.unk || id == special_.cls || id == special_.sep ||
           id == special_.mask;
  }

  WordPiece model_;
  BertNormalizer normalizer_;
  AddedTokens added_;
  bool special_text_;
};

Vocabulary read_vocabulary(const std::string& file, std::string_view content) {
  refuse_if_foreign(file, content);
  Vocabulary vocabulary;
  content = without_byte_order_mark(content);
  for (std::size_t number = 1; !content.empty(); ++number) {
    // As Hugging Face's library, which leaves white space before a token as it is.
    const std::string_view token = trimmed_end(take_vocabulary_line(content));
    if (token.empty()) fail_input("'{}' line {} is empty; each line is one token", file, number);
    if (!is_valid_utf8(token)) fail_input("'{}' line {} is not UTF-8", file, number);
    if (const std::int32_t first = vocabulary.find(token); first >= 0) {
      fail_input("'{}' line {}: '{}' is already in line {}", file, number, token, first + 1);
    }
    vocabulary.add(static_cast<std::int32_t>(number - 1), token);
  }
  if (vocabulary.count() == 0) fail_input("'{}' contains no tokens", file);
  return vocabulary;
}

}  // namespace

std::unique_ptr<Tokenizer> load_bert(const std::string& vocab_file, bool lowercase,
                                     bool special_text) {
  const std::string content = read_file(vocab_file, kMaxFile);
  WordPiece model(read_vocabulary(vocab_file, content), {}, vocab_file);
  std::vector<AddedToken> added;
  const auto special = [&](std::string_view name) {
    const std::int32_t id = model.vocabulary().find(name);
    if (id < 0) fail_input("'{}' has no token '{}', which BERT needs", vocab_file, name);
    added.push_back({.content = std::string(name), .id = id});
    return id;
  };
  SpecialIds ids{.pad = special("[PAD]"),
                 .unk = special("[UNK]"),
                 .cls = special("[CLS]"),
                 .sep = special("[SEP]"),
                 .mask = special("[MASK]")};
  ids.bos = ids.cls;
  ids.eos = ids.eod = ids.sep;
  const std::uint64_t fingerprint =
      Fingerprint("bert").add(content).add(lowercase).add(special_text).digest();
  return std::make_unique<BertTokenizer>(std::move(model), lowercase, std::move(added), ids,
                                         special_text, fingerprint);
}

}  // namespace trireme
