// Text files cut into chunks of whole documents, for workers to encode independently.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_source.h"

namespace trireme {

// What a document is in a file.
enum class DocumentForm {
  json_line,   // a line that is a JSON object
  line,        // a line of text
  paragraphs,  // text up to the next blank line
  file,        // the whole file
};

// Expands patterns (*, ?, [...]) to sorted file names, in the order of the patterns. Throws
// bad_input for a pattern that matches nothing and for a folder.
std::vector<std::string> expand_inputs(const std::vector<std::string>& patterns);

struct Chunk {
  // Bytes that a reader may touch after the text.
  static constexpr std::size_t padding = 64;

  std::string bytes;     // the text and its padding
  std::size_t size = 0;  // of the text
  const std::string* file = nullptr;
  DocumentForm form = DocumentForm::json_line;  // of the file
  std::int64_t first_line = 1;                  // number of the first line in the file

  std::string_view text() const { return {bytes.data(), size}; }
};

// Reads files one after the other. Memory: one chunk of about `target` bytes, or the longest
// document, of at most `document_limit` bytes.
class ChunkReader {
 public:
  static constexpr std::size_t target = 1 << 20;
  static constexpr std::size_t document_limit = std::size_t{1} << 30;

  // A file ".txt" (compressed or not) holds text in the form `text`, unless it begins like JSON
  // lines; any other file holds JSON lines. With `all_text` every file holds text. Throws bad_input
  // for a file ".txt" that begins like JSON of another layout.
  ChunkReader(std::vector<std::string> files, DocumentForm text, bool all_text);

  // The next chunk; false at the end. A chunk never spans files.
  bool next(Chunk& chunk);
  // The files ".txt" that are read as JSON lines.
  std::vector<std::string> json_lines_in_txt() const;

  // Bytes of all files, and how many of them were read.
  std::uint64_t total_bytes() const { return total_bytes_; }
  std::uint64_t consumed_bytes() const { return done_bytes_ + (source_ ? source_->consumed() : 0); }

 private:
  bool open_next();
  bool fill_rest(std::size_t wanted);
  std::size_t find_cut() const;

  std::vector<std::string> files_;
  std::vector<DocumentForm> forms_;  // by file
  std::size_t file_ = 0;             // the next to open
  std::unique_ptr<ByteSource> source_;
  std::string rest_;  // read, not yet given
  std::int64_t line_ = 1;
  std::uint64_t total_bytes_ = 0, done_bytes_ = 0;
};

}  // namespace trireme
