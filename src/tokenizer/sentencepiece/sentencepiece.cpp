// SentencePiece models; the library's header stays in this file.
#include "tokenizer/sentencepiece/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/foreign_bytes.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/fingerprint.h"
#include "tokenizer/sentencepiece/bpe.h"
#include "tokenizer/sentencepiece/charsmap.h"
#include "tokenizer/sentencepiece/proto.h"
#include "tokenizer/sentencepiece/unigram.h"

namespace trireme {
namespace {

constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 28;

using Processor = sentencepiece::SentencePieceProcessor;

// A sound model encodes and decodes everything but control symbols.
void check(const sentencepiece::util::Status& status, const char* what) {
  if (!status.ok()) {
    fail_input(
        "the SentencePiece model cannot {}: either the text has a word that is spelled like one of "
        "the model's control symbols, such as <s> in a model of words, or its pieces, scores or "
        "tables contradict each other (is its file damaged?)",
        what);
  }
}

bool loads(Processor& processor, std::string_view content) {
  try {
    return processor.LoadFromSerializedProto(content).ok();
  } catch (const std::exception&) {  // of the library's trie
    return false;
  }
}

// Whether every place of the normalization tables that the library can be led to lies inside them.
// The library checks everything else.
bool has_sound_charsmaps(std::string_view model) {
  const auto tables = sentencepiece_charsmaps(model);
  return tables && std::ranges::all_of(*tables, SentencePieceCharsmap::is_sound);
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(std::unique_ptr<Processor> processor, std::string content,
                         SentencePieceStyle style, bool special_text)
      : processor_(std::move(processor)),
        content_(std::move(content)),
        style_(style),
        special_text_(special_text) {
    if (const auto model = parse_sentencepiece(content_)) {
      bpe_ = SentencePieceBpe::make(*model);
      unigram_ = SentencePieceUnigram::make(*model);
    }
    vocab_size_ = processor_->GetPieceSize();
    special_ = {.bos = processor_->bos_id(),
                .eos = processor_->eos_id(),
                .pad = processor_->pad_id(),
                .unk = processor_->unk_id()};
    special_.eod = special_.eos;
    fingerprint_ = Fingerprint("sentencepiece")
                       .add(content_)
                       .add(static_cast<std::uint64_t>(style))
                       .add(special_text)
                       .digest();
    if (style == SentencePieceStyle::megatron) add_megatron_tokens();
    if (style == SentencePieceStyle::llama2 && special_.bos < 0) {
      fail_input("the model has no <s>, with which Llama 2 begins each document");
    }
  }

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    if (!special_text_) return encode_plain(text, ids);
    added_.cut(
        text, [&](std::string_view stretch) { encode_plain(stretch, ids); },
        [&](const AddedToken& token) { ids.push_back(token.id); });
  }

  void encode_document(std::string_view text, std::vector<std::int32_t>& ids) const override {
    if (style_ == SentencePieceStyle::llama2) ids.push_back(special_.bos);
    encode(text, ids);
  }

  void encode_prompt(std::string_view text, std::vector<std::int32_t>& ids) const override {
    encode_document(text, ids);
  }

  Encoding encode_with_special(std::string_view text,
                               std::optional<std::string_view> pair) const override {
    Encoding out;
    encode_document(text, out.ids);
    out.type_ids.assign(out.ids.size(), 0);
    if (pair) encode_document(*pair, out.ids);
    out.type_ids.resize(out.ids.size(), 1);
    return out;
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    std::string out;
    std::vector<int> run;  // ids of the model itself since the last added token
    for (const std::int32_t id : ids) {
      check_id(id);
      const AddedToken* token = added_token(id);
      if (skip_special && (token || processor_->IsControl(id) || processor_->IsUnknown(id))) {
        continue;
      }
      if (!token) {
        run.push_back(id);
        continue;
      }
      // As Megatron has it: the token with a space on either side.
      out += decode_run(run) + " " + token->content + " ";
      run.clear();
    }
    return out + decode_run(run);
  }

  std::string token_bytes(std::int32_t id) const override {
    check_id(id);
    const AddedToken* token = added_token(id);
    return token ? token->content : processor_->IdToPiece(id);
  }

  std::int32_t token_id(std::string_view bytes) const override {
    for (const AddedToken& token : added_.tokens()) {
      if (token.content == bytes) return token.id;
    }
    const int id = processor_->PieceToId(bytes);
    return processor_->IdToPiece(id) == bytes ? id : -1;
  }

 private:
  void encode_plain(std::string_view text, std::vector<std::int32_t>& ids) const {
    if (bpe_) return bpe_->encode(text, ids);
    if (unigram_) return unigram_->encode(text, ids);
    std::vector<int> found;
    check(processor_->Encode(text, &found), "encode a text");
    ids.insert(ids.end(), found.begin(), found.end());
  }

  std::string decode_run(const std::vector<int>& run) const {
    std::string text;
    if (!run.empty()) check(processor_->Decode(run, &text), "decode ids");
    return text;
  }

  const AddedToken* added_token(std::int32_t id) const {
    for (const AddedToken& token : added_.tokens()) {
      if (token.id == id) return &token;
    }
    return nullptr;
  }

  // The order in which Megatron gives out ids.
  void add_megatron_tokens() {
    std::vector<AddedToken> tokens;
    const auto add = [&](const std::string& content) {
      std::int32_t id = token_id(content);
      if (id < 0) id = vocab_size_++;
      tokens.push_back({.content = content, .id = id});
      return id;
    };
    const auto add_own = [&](std::int32_t id, const char* absent) {
      return add(id >= 0 ? processor_->IdToPiece(id) : absent);
    };
    special_.cls = add("<CLS>");
    special_.sep = add("<SEP>");
    special_.eod = add("<EOD>");
    special_.mask = add("<MASK>");
    special_.pad = add_own(processor_->pad_id(), "<PAD>");
    special_.bos = add_own(processor_->bos_id(), "<BOS>");
    special_.eos = add_own(processor_->eos_id(), "<EOS>");
    added_ = AddedTokens(std::move(tokens));
  }

  std::unique_ptr<Processor> processor_;
  std::string content_;  // of the file
  // One of them encodes, where it is certain to give the same ids.
  std::unique_ptr<SentencePieceBpe> bpe_;
  std::unique_ptr<SentencePieceUnigram> unigram_;
  SentencePieceStyle style_;
  bool special_text_;
  AddedTokens added_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& model_file,
                                              SentencePieceStyle style, bool special_text) {
  std::string content = read_file(model_file, kMaxFile);
  auto processor = std::make_unique<Processor>();
  if (!has_sound_charsmaps(content) || !loads(*processor, content)) {
    refuse_if_foreign(model_file, content);
    fail_input(
        "'{}' is not a SentencePiece model: it is damaged, cut off or a file of another kind",
        model_file);
  }
  return std::make_unique<SentencePieceTokenizer>(std::move(processor), std::move(content), style,
                                                  special_text);
}

}  // namespace trireme
