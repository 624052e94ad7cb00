// Splits files into chunks of whole documents, which workers encode independently.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/documents/arrow_file.h"
#include "data/documents/byte_source.h"
#include "data/documents/document_inputs.h"

namespace trireme {

struct Chunk {
  // Bytes that a reader may touch after the text.
  static constexpr std::size_t padding = 64;

  std::string bytes;                     // the text and its padding
  std::size_t size = 0;                  // of the text, or of the texts of the rows
  std::shared_ptr<const RowBatch> rows;  // of a file of columns, which has no bytes
  const std::string* file = nullptr;
  DocumentForm form = DocumentForm::json_line;  // of the file
  std::int64_t first_line = 1;   // number of the first line in the part that is read, from 1
  std::uint64_t first_byte = 0;  // of the file in that part
  std::int64_t group = 0;        // of the rows
  std::int64_t first_row = 0;    // in its group

  std::string_view text() const { return {bytes.data(), size}; }
};

// Reads chunks sequentially.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  // The next chunk; false at the end.
  virtual bool next(Chunk& chunk) = 0;
  // Bytes of files that were read.
  virtual std::uint64_t consumed_bytes() const = 0;
};

// Text or JSON lines from `source`, which begins at byte `first_byte` of the file. Memory: one
// chunk of about `target` bytes, or the longest document, of at most `document_limit` bytes; less
// where that many came from very few compressed ones. `file` lives as long as the chunks.
class TextChunks final : public ChunkSource {
 public:
  static constexpr std::size_t target = 1 << 20;
  static constexpr std::size_t document_limit = std::size_t{1} << 30;

  TextChunks(const std::string* file, DocumentForm form, std::unique_ptr<ByteSource> source,
             std::uint64_t first_byte = 0);
  bool next(Chunk& chunk) override;
  std::uint64_t consumed_bytes() const override { return source_->consumed(); }

 private:
  bool fill_rest(std::size_t wanted);
  std::size_t find_cut() const;
  bool is_blown_up() const;
  void read_to_cut(std::size_t& cut);
  void take(std::size_t cut, std::string& bytes);

  const std::string* file_;
  DocumentForm form_;
  std::unique_ptr<ByteSource> source_;
  std::uint64_t first_byte_;
  std::string rest_;  // read, not yet given
  std::int64_t line_ = 1;
};

// The rows of the row groups [first, last) of a file of columns, some at a time.
class RowChunks final : public ChunkSource {
 public:
  // `name` lives as long as the chunks.
  RowChunks(const std::string* name, std::shared_ptr<const ArrowFile> file, std::int64_t first,
            std::int64_t last);
  bool next(Chunk& chunk) override;
  std::uint64_t consumed_bytes() const override;

 private:
  const std::string* name_;
  std::shared_ptr<const ArrowFile> file_;
  const std::int64_t first_, last_;
  std::int64_t group_;
  std::unique_ptr<ArrowFile::Cursor> cursor_;  // in group_
  std::int64_t row_ = 0;
};

// Reads files one after the other; a chunk never spans files.
class ChunkReader final : public ChunkSource {
 public:
  // `text` is the form of text files, see form_of(); `columns` are those of files of columns.
  ChunkReader(std::vector<std::string> files, DocumentForm text, bool all_text,
              std::vector<std::string> columns);

  bool next(Chunk& chunk) override;
  // The files ".txt" that are read as JSON lines.
  std::vector<std::string> json_lines_in_txt() const;
  // The files of more than a megabyte that are one document each.
  std::vector<std::string> large_documents() const;

  // Bytes of all files, and how many of them were read.
  std::uint64_t total_bytes() const { return total_bytes_; }
  std::uint64_t consumed_bytes() const override {
    return done_bytes_ + (source_ ? source_->consumed_bytes() : 0);
  }

 private:
  bool open_next();

  std::vector<std::string> files_, columns_;
  std::vector<DocumentForm> forms_;  // by file
  std::size_t file_ = 0;             // the next to open
  std::unique_ptr<ChunkSource> source_;
  std::uint64_t total_bytes_ = 0, done_bytes_ = 0;
};

}  // namespace trireme
