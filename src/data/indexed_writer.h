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

// Files take their names only in keep(); until then they are called *.tmp, and a writer that is
// destroyed without keep() removes them. Memory does not grow with the data.
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
  // Appends all documents of another file of the same token type, with the modes of its sequences
  // if it has them; either all files that hold sequences have modes or none.
  void add_dataset(const IndexedDataset& other);

  std::int64_t sequences() const { return sequences_; }
  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return tokens_; }

  // Writes the index and syncs both files; nothing is added any more.
  void complete();
  // Renames both complete files into place. At any moment, also after a crash, a reader finds the
  // old pair, no index, or the new pair. Of several writers that belong together first complete
  // all, then keep all.
  void keep();
  void finish() {
    complete();
    keep();
  }

 private:
  // A new file that is written in large pieces.
  class Output {
   public:
    explicit Output(const std::string& path) : file_(path) {}
    void write(const void* bytes, std::size_t count);
    void flush();
    const File& file() { return file_.file(); }
    void complete();
    void keep() { file_.keep(); }

   private:
    NewFile file_;
    std::string buffer_;
  };
  void add_modes(const IndexedDataset& other);
  void write_index();
  void end_document();

  std::string prefix_;
  TokenType type_;
  std::int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
  bool has_modes_ = false;
  Output bin_, lengths_, starts_, modes_;  // all but the first hold what the index is made from
  std::optional<Output> idx_;              // once complete
  std::string scratch_;
};

}  // namespace trireme
