// Tokenizers: text to token ids and back, the same ids as the reference implementation of each
// kind.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Specification of a tokenizer. `type` is one of our names or one of Megatron's:
//   gpt2           GPT2BPETokenizer        vocab_file (vocab.json), merge_file (merges.txt)
//   tiktoken       TikTokenizer            model_file (ranks in base64), pattern
//   hf             HuggingFaceTokenizer    model_file (tokenizer.json, or the folder that holds it)
//   bert           BertWordPieceLowerCase  vocab_file (vocab.txt)
//   bert_cased     BertWordPieceCase       vocab_file (vocab.txt)
//   sentencepiece  GPTSentencePieceTokenizer  model_file (.model)
//   llama2         Llama2Tokenizer         model_file; a document begins with <s>
//                  SentencePieceTokenizer  model_file; Megatron's <CLS> <SEP> <EOD> <MASK> added
//   null           NullTokenizer           vocab_size; text is decimal ids between spaces
struct TokenizerConfig {
  std::string type;
  std::string vocab_file;
  std::string merge_file;
  std::string model_file;
  std::string pattern;  // tiktoken only: kind of file (tiktoken_kinds.h); empty: the ranks tell
  std::int64_t vocab_size = 0;  // null only: ids 0 .. vocab_size-1; EOD is vocab_size
  // Whether a special token that is spelled out in the text (such as "<|endoftext|>") becomes its
  // id, as the reference libraries do, or is encoded like any other text.
  bool special_text = true;
};

// Ids of the special tokens; -1 where the vocabulary has none.
struct SpecialIds {
  std::int32_t eod = -1;  // ends a document in the training data
  std::int32_t bos = -1;
  std::int32_t eos = -1;
  std::int32_t pad = -1;
  std::int32_t unk = -1;
  std::int32_t cls = -1;
  std::int32_t sep = -1;
  std::int32_t mask = -1;
};

// Ids with the segment (0 or 1) that each belongs to.
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> type_ids;
};

// All methods are const and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Appends the ids of `text` without any added BOS, CLS or the like. Text should be UTF-8:
  // byte-level tokenizers keep invalid bytes as they are (decode returns them), all others read
  // each ill-formed sequence as one U+FFFD by the WHATWG rule.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;

  // Appends the ids of one document as Megatron's preprocessing makes them, EOD not included: like
  // encode(), but llama2 begins with BOS and hf adds what the tokenizer's template adds.
  virtual void encode_document(std::string_view text, std::vector<std::int32_t>& ids) const {
    encode(text, ids);
  }

  // Appends the ids of a text that is to be continued: what opens a document, then encode().
  // Without what encode_document() adds after the text.
  virtual void encode_prompt(std::string_view text, std::vector<std::int32_t>& ids) const {
    encode(text, ids);
  }

  // A text, or a pair of texts, with the special tokens that a model of this kind expects around
  // them, for example [CLS] A [SEP] B [SEP].
  virtual Encoding encode_with_special(std::string_view text,
                                       std::optional<std::string_view> pair = {}) const;

  // The text of `ids`. Byte-level tokenizers return the exact bytes, which may be ill-formed UTF-8
  // where a sequence of ids cuts a character. `skip_special` leaves special tokens out.
  // Errors: an id outside the vocabulary is bad input.
  virtual std::string decode(std::span<const std::int32_t> ids,
                             bool skip_special = false) const = 0;

  // One more than the largest id, added special tokens included; not padded.
  std::int32_t vocab_size() const { return vocab_size_; }

  // The token as bytes: what it contributes to the text for byte-level tokenizers, the piece as the
  // vocabulary spells it ("##ing", "▁the") for others. Errors: an id outside the vocabulary.
  virtual std::string token_bytes(std::int32_t id) const = 0;

  // The id of a token that is spelled as token_bytes() returns it, or -1.
  virtual std::int32_t token_id(std::string_view bytes) const = 0;

  const SpecialIds& special() const { return special_; }
  std::int32_t eod_id() const { return special_.eod; }

  // A hash of everything that decides the ids: equal for equal files and options, on any machine.
  std::uint64_t fingerprint() const { return fingerprint_; }

 protected:
  Tokenizer() = default;
  // Refuses an id outside [0, vocab_size()) with a message that names it.
  void check_id(std::int32_t id) const;

  std::int32_t vocab_size_ = 0;
  SpecialIds special_;
  std::uint64_t fingerprint_ = 0;
};

// Makes the tokenizer. Errors: an unknown type (the nearest name is suggested), a missing flag, a
// file that is missing, damaged or contradicts itself: bad input, naming file and line.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerConfig& config);

// Every accepted type name, ours first, for help texts.
std::span<const std::string_view> tokenizer_type_names();

}  // namespace trireme
