// Lines, rows and plain texts.
#include "data/chunk_documents.h"

#include <simdjson.h>

#include "data/text_documents.h"
#include "tokenizer/utf8.h"

namespace trireme {

ChunkDocuments::ChunkDocuments(std::vector<std::string> keys)
    : keys_(std::move(keys)), json_(keys_), texts_(keys_.size()) {}

void ChunkDocuments::for_each(const Chunk& chunk, const Body& body, const Bad& bad) {
  try {
    if (chunk.form == DocumentForm::json_line) return for_each_line(chunk, body, bad);
    if (chunk.form == DocumentForm::row) return for_each_row(chunk, body, bad);
    for_each_text(chunk, body);
  } catch (const std::bad_alloc&) {
    fail(
        "'{}': the documents from line {} on, {} MiB of text, and their tokens do not fit into "
        "memory: give fewer threads (--workers, data.tokenizer_threads), or cut the documents",
        *chunk.file, chunk.first_line, chunk.size >> 20);
  }
}

void ChunkDocuments::for_each_line(const Chunk& chunk, const Body& body, const Bad& bad) {
  std::string_view text = chunk.text();
  for (std::int64_t number = chunk.first_line; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (is_blank(line)) continue;
    try {
      body(json_.read(line));
    } catch (const Error& error) {
      const std::string after =
          chunk.first_byte > 0 ? fmt::format(" after byte {}", chunk.first_byte) : "";
      bad(Error(error.code(),
                fmt::format("'{}' line {}{}: {}", *chunk.file, number, after, error.what())));
    }
  }
}

void ChunkDocuments::for_each_row(const Chunk& chunk, const Body& body, const Bad& bad) {
  for (std::int64_t row = 0; row < chunk.rows->size(); ++row) {
    try {
      read_row(chunk, row);
      body(texts_);
    } catch (const Error& error) {
      bad(Error(error.code(), fmt::format("'{}' row group {}, row {}: {}", *chunk.file, chunk.group,
                                          chunk.first_row + row, error.what())));
    }
  }
}

void ChunkDocuments::read_row(const Chunk& chunk, std::int64_t row) {
  repaired_.clear();
  for (std::size_t k = 0; k < keys_.size(); ++k) {
    texts_[k].clear();
    const std::int64_t count = chunk.rows->texts(k, row);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::optional<std::string_view> text = chunk.rows->text(k, row, i);
      if (!text && count == 1) fail_input("the value of \"{}\" is null, not a text", keys_[k]);
      if (!text) fail_input("the list at \"{}\" holds null, not only texts", keys_[k]);
      const bool valid = simdjson::validate_utf8(text->data(), text->size());
      texts_[k].push_back(valid ? *text : repaired_.emplace_back(to_valid_utf8(*text)));
    }
  }
}

void ChunkDocuments::for_each_text(const Chunk& chunk, const Body& body) {
  if (keys_.size() > 1) {
    fail_input("'{}' is plain text, which has no JSON keys: give one key or none", *chunk.file);
  }
  std::string_view text = chunk.text();
  std::string repaired;
  if (!is_valid_utf8(text)) text = repaired = to_valid_utf8(text);
  for_each_document(text, chunk.form, [&](std::string_view document) {
    texts_[0].assign(1, document);
    body(texts_);
  });
}

}  // namespace trireme
