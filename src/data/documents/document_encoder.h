// Encodes the documents of one chunk; each worker of the preprocessor has one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/documents/chunk_documents.h"
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
  std::int64_t repaired_documents = 0;  // with bytes that are not UTF-8
  std::string first_repaired;           // where
};

class DocumentEncoder {
 public:
  DocumentEncoder(const Tokenizer& tokenizer, const PreprocessOptions& options);

  // Throws bad_input for the first bad line unless they are skipped.
  EncodedChunk encode(const Chunk& chunk);

 private:
  // Encodes the texts of one document for output `key`.
  void add_document(const std::vector<std::string_view>& texts, std::size_t key, EncodedChunk& out);

  const Tokenizer& tokenizer_;
  const PreprocessOptions& options_;
  TokenType type_;
  ChunkDocuments documents_;
  std::vector<std::int32_t> ids_;
  std::vector<std::string_view> sentences_;
};

}  // namespace trireme
