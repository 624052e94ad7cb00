// Iterates over the documents of a chunk from any kind of file.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/documents/document_chunks.h"
#include "data/documents/json_texts.h"

namespace trireme {

class ChunkDocuments {
 public:
  // `keys` are the values that are read of JSON lines and of files of columns.
  explicit ChunkDocuments(std::vector<std::string> keys);

  // The texts of a document for each key: one, or those of a list. Valid UTF-8; they live
  // until the function returns.
  using Texts = std::vector<std::vector<std::string_view>>;
  using Body = std::function<void(const Texts&)>;
  // Handles a line or row that cannot be read; the message says where it is.
  using Bad = std::function<void(const Error&)>;

  // Calls `body` with each document, in order, or `bad` if the document cannot be read or `body`
  // throws. Throws bad_input for plain text with several keys.
  void for_each(const Chunk& chunk, const Body& body, const Bad& bad);

  // Documents of the last chunk with bytes that are not UTF-8, and where the first is.
  std::int64_t repaired() const { return repaired_count_; }
  const std::string& first_repaired() const { return first_repaired_; }

 private:
  void for_each_line(const Chunk& chunk, const Body& body, const Bad& bad);
  void for_each_row(const Chunk& chunk, const Body& body, const Bad& bad);
  void read_row(const Chunk& chunk, std::int64_t row);
  void for_each_text(const Chunk& chunk, const Body& body, const Bad& bad);
  template <class Where>
  void note_repair(const Where& where);

  std::vector<std::string> keys_;
  JsonTexts json_;
  Texts texts_;
  std::deque<std::string> repaired_;  // what texts_ shows where the file's is ill-formed
  std::int64_t repaired_count_ = 0;
  std::string first_repaired_;
};

}  // namespace trireme
