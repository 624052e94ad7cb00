// Encodes the documents of one chunk; each worker of the preprocessor has one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/document_chunks.h"
#include "data/json_texts.h"
#include "data/preprocess.h"
#include "data/token_type.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

struct EncodedChunk {
  // For one key: what IndexedDatasetWriter::add_encoded takes.
  struct Output {
    std::string tokens;
    std::vector<std::int32_t> lengths;
    std::vector<std::int32_t> sequences_of_document;
  };
  std::vector<Output> outputs;  // by key
  std::int64_t documents = 0;
  std::int64_t text_bytes = 0;
  std::int64_t bad_lines = 0;
  std::string first_bad_line;
};

class DocumentEncoder {
 public:
  DocumentEncoder(const Tokenizer& tokenizer, const PreprocessOptions& options);

  // Throws bad_input for the first bad line unless they are skipped.
  EncodedChunk encode(const Chunk& chunk);

 private:
  void add_json_line(std::string_view line, EncodedChunk& out);
  void add_text(std::string_view text, EncodedChunk& out);
  // Encodes the texts of one document for output `key`.
  void add_document(const std::vector<std::string_view>& texts, std::size_t key, EncodedChunk& out);

  const Tokenizer& tokenizer_;
  const PreprocessOptions& options_;
  TokenType type_;
  JsonTexts json_;
  std::vector<std::int32_t> ids_;
  std::vector<std::string_view> texts_, sentences_;
};

}  // namespace trireme
