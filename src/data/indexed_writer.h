// Writer of indexed token files (see indexed_dataset.h), byte for byte as Megatron's builder.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/file.h"
#include "data/indexed_dataset.h"
#include "data/token_type.h"

namespace trireme {

// Files appear under their names only in keep(); until then they lie beside as *.tmp, and a writer
// that is destroyed without removes them. Memory does not grow with the data.
class IndexedDatasetWriter {
 public:
  IndexedDatasetWriter(const std::string& prefix, TokenType type);
  ~IndexedDatasetWriter();
  IndexedDatasetWriter(IndexedDatasetWriter&&) noexcept = default;

  // Appends one document of several sequences: `tokens` holds their tokens in order, `lengths`
  // their lengths, whose sum it must have. No sequence at all is an empty document, as Megatron
  // writes for an empty text. Ids must fit the token type.
  void add_document(std::span<const std::int32_t> tokens, std::span<const std::int32_t> lengths);
  // Appends one document of one sequence.
  void add_document(std::span<const std::int32_t> tokens);
  // Appends `tokens` that already have the token type's form, with the lengths of their sequences
  // and the number of sequences of each document.
  void add_encoded(std::span<const std::byte> tokens, std::span<const std::int32_t> lengths,
                   std::span<const std::int32_t> sequences_of_document);
  // Appends all documents of another file of the same token type.
  void add_dataset(const IndexedDataset& other);

  std::int64_t sequences() const { return sequences_; }
  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return tokens_; }

  // Writes the index and syncs both files; nothing is added any more.
  void complete();
  // Renames both complete files into place, .idx last. Files that belong together: complete all of
  // them, then keep all.
  void keep();
  void finish() {
    complete();
    keep();
  }

 private:
  // A file that is written in large pieces and removed unless it was kept.
  class Output {
   public:
    Output(const std::string& path);
    ~Output();
    Output(Output&& other) noexcept;
    void write(const void* bytes, std::size_t count);
    void flush();
    File& file() { return file_; }
    void keep_as(const std::string& path);

   private:
    std::string path_;  // empty once kept or moved from
    File file_;
    std::string buffer_;
  };
  void write_index();
  void end_document();

  std::string prefix_;
  TokenType type_;
  std::int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
  Output bin_, lengths_, starts_;
  std::optional<Output> idx_;  // once complete
  std::string scratch_;
};

}  // namespace trireme
