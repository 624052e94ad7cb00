// Lines and paragraphs to tokens.
#include "data/documents/document_encoder.h"

#include <cstring>
#include <limits>

#include "base/error.h"
#include "data/bert/sentences.h"

namespace trireme {
namespace {

void append_tokens(std::span<const std::int32_t> ids, TokenType type, std::string& out) {
  const std::size_t at = out.size();
  out.resize(at + ids.size() * static_cast<std::size_t>(size_of(type)));
  if (type == TokenType::i32) {
    if (!ids.empty()) std::memcpy(out.data() + at, ids.data(), ids.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::uint16_t>(ids[i]);
    std::memcpy(out.data() + at + 2 * i, &id, 2);
  }
}

}  // namespace

DocumentEncoder::DocumentEncoder(const Tokenizer& tokenizer, const PreprocessOptions& options)
    : tokenizer_(tokenizer),
      options_(options),
      type_(token_type_for(tokenizer.vocab_size())),
      documents_(options.json_keys) {}

EncodedChunk DocumentEncoder::encode(const Chunk& chunk) {
  EncodedChunk out;
  out.outputs.resize(options_.json_keys.size());
  out.text_bytes = static_cast<std::int64_t>(chunk.size);
  documents_.for_each(
      chunk,
      [&](const ChunkDocuments::Texts& texts) {
        for (std::size_t key = 0; key < texts.size(); ++key) add_document(texts[key], key, out);
        ++out.documents;
      },
      [&](const Error& error) {
        if (!options_.skip_bad_lines) throw error;
        if (out.bad_lines++ == 0) out.first_bad_line = error.what();
      });
  out.repaired_documents = documents_.repaired();
  out.first_repaired = documents_.first_repaired();
  return out;
}

void DocumentEncoder::add_document(const std::vector<std::string_view>& texts, std::size_t key,
                                   EncodedChunk& out) {
  EncodedChunk::Output& to = out.outputs[key];
  const std::size_t first = to.lengths.size();
  ids_.clear();
  std::size_t before = 0;
  const auto add_sequence = [&](std::string_view text) {
    tokenizer_.encode_document(text, ids_);
    // A text without tokens does not become a sequence, as upstream.
    if (ids_.size() > before) to.lengths.push_back(static_cast<std::int32_t>(ids_.size() - before));
    before = ids_.size();
  };
  for (const std::string_view text : texts) {
    if (!options_.split_sentences) {
      add_sequence(text);
      continue;
    }
    split_sentences(text, options_.keep_newlines, sentences_);
    for (const std::string_view sentence : sentences_) add_sequence(sentence);
  }
  if (ids_.size() >= std::numeric_limits<std::int32_t>::max()) {
    fail_input("a document of {} tokens exceeds the maximum of 2^31 - 2", ids_.size());
  }
  if (options_.append_eod && !ids_.empty()) {
    ids_.push_back(tokenizer_.eod_id());
    ++to.lengths.back();
  }
  to.sequences_of_document.push_back(static_cast<std::int32_t>(to.lengths.size() - first));
  append_tokens(ids_, type_, to.tokens);
}

}  // namespace trireme
