// Lines, rows and plain texts.
#include "data/documents/chunk_documents.h"

#include <simdjson.h>

#include <algorithm>

#include "data/documents/text_documents.h"
#include "tokenizer/utf8.h"

namespace trireme {

ChunkDocuments::ChunkDocuments(std::vector<std::string> keys)
    : keys_(std::move(keys)), json_(keys_), texts_(keys_.size()) {}

void ChunkDocuments::for_each(const Chunk& chunk, const Body& body, const Bad& bad) {
  repaired_count_ = 0;
  try {
    if (chunk.form == DocumentForm::json_line) return for_each_line(chunk, body, bad);
    if (chunk.form == DocumentForm::row) return for_each_row(chunk, body, bad);
    for_each_text(chunk, body, bad);
  } catch (const std::bad_alloc&) {
    fail(
        "'{}': the documents starting at line {}, {} MiB of text, and their tokens do not fit in "
        "memory: use fewer threads (--workers, data.tokenizer_threads), or split the documents",
        *chunk.file, chunk.first_line, chunk.size >> 20);
  }
}

template <class Where>
void ChunkDocuments::note_repair(const Where& where) {
  if (repaired_count_++ == 0) first_repaired_ = where();
}

void ChunkDocuments::for_each_line(const Chunk& chunk, const Body& body, const Bad& bad) {
  std::string_view text = chunk.text();
  for (std::int64_t number = chunk.first_line; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (is_blank(line)) continue;
    const auto where = [&] {
      const std::string after =
          chunk.first_byte > 0 ? fmt::format(" after byte {}", chunk.first_byte) : "";
      return fmt::format("'{}' line {}{}", *chunk.file, number, after);
    };
    try {
      body(json_.read(line));
      if (json_.repaired()) note_repair(where);
    } catch (const Error& error) {
      bad(Error(error.code(), fmt::format("{}: {}", where(), error.what())));
    }
  }
}

void ChunkDocuments::for_each_row(const Chunk& chunk, const Body& body, const Bad& bad) {
  for (std::int64_t row = 0; row < chunk.rows->size(); ++row) {
    const auto where = [&] {
      return fmt::format("'{}' row group {}, row {}", *chunk.file, chunk.group,
                         chunk.first_row + row);
    };
    try {
      read_row(chunk, row);
      body(texts_);
      if (!repaired_.empty()) note_repair(where);
    } catch (const Error& error) {
      bad(Error(error.code(), fmt::format("{}: {}", where(), error.what())));
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
      if (!text && count == 1) fail_input("the value of \"{}\" is null, not a string", keys_[k]);
      if (!text) fail_input("the list at \"{}\" contains null, not only strings", keys_[k]);
      const bool valid = simdjson::validate_utf8(text->data(), text->size());
      texts_[k].push_back(valid ? *text : repaired_.emplace_back(to_valid_utf8(*text)));
    }
  }
}

void ChunkDocuments::for_each_text(const Chunk& chunk, const Body& body, const Bad& bad) {
  if (keys_.size() > 1) {
    fail_input("'{}' is plain text, which has no JSON keys: give at most one key", *chunk.file);
  }
  const std::string_view text = chunk.text();
  const auto where = [&](const char* at) {
    const std::int64_t line = chunk.first_line + std::count(text.data(), at, '\n');
    const std::string after =
        chunk.first_byte > 0 ? fmt::format(" after byte {}", chunk.first_byte) : "";
    return fmt::format("'{}' line {}{}", *chunk.file, line, after);
  };
  const bool valid = is_valid_utf8(text);
  std::string repaired;
  for_each_document(text, chunk.form, [&](std::string_view document) {
    if (const std::size_t nul = document.find('\0'); nul != document.npos) {
      return bad(
          Error(ExitCode::bad_input,
                fmt::format("{} contains NUL bytes, as in a file that is padded, truncated or not "
                            "text (`tr -d '\\0'` removes them)",
                            where(document.data() + nul))));
    }
    if (!valid && !is_valid_utf8(document)) {
      note_repair([&] { return where(document.data()); });
      document = repaired = to_valid_utf8(document);
    }
    texts_[0].assign(1, document);
    body(texts_);
  });
}

}  // namespace trireme
