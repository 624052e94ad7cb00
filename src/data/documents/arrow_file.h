// Columnar files, Parquet and Arrow: reads the texts, or lists of texts, of selected columns
// through a plug-in with the Arrow library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/arrow/plugin.h"

namespace trireme {

// Some rows of a row group. Texts are valid while it exists.
class RowBatch {
 public:
  explicit RowBatch(const ArrowPluginRows* rows) : rows_(rows) {}
  ~RowBatch();
  RowBatch(const RowBatch&) = delete;
  RowBatch& operator=(const RowBatch&) = delete;

  std::int64_t size() const { return rows_->rows; }
  // Number of texts in a row of a column: one, or the length of the list.
  std::int64_t texts(std::size_t column, std::int64_t row) const {
    return rows_->columns[column].ends ? first_text(column, row + 1) - first_text(column, row) : 1;
  }
  // The bytes of one of them, which may be ill-formed UTF-8; nothing where it, or the list, is
  // null.
  std::optional<std::string_view> text(std::size_t column, std::int64_t row,
                                       std::int64_t which = 0) const {
    const ArrowPluginText& text = rows_->columns[column].texts[first_text(column, row) + which];
    if (!text.bytes) return std::nullopt;
    return std::string_view(text.bytes, static_cast<std::size_t>(text.size));
  }

 private:
  std::int64_t first_text(std::size_t column, std::int64_t row) const {
    const std::int64_t* const ends = rows_->columns[column].ends;
    return !ends ? row : row == 0 ? 0 : ends[row - 1];
  }

  const ArrowPluginRows* rows_;
};

class ArrowFile {
 public:
  // Loads the plug-in on the first use. Throws bad_input if it is missing or incompatible, if a
  // file is damaged, or if columns are missing or have no texts.
  ArrowFile(const std::string& path, const std::vector<std::string>& columns);
  ~ArrowFile();
  ArrowFile(const ArrowFile&) = delete;
  ArrowFile& operator=(const ArrowFile&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<std::string>& columns() const { return columns_; }
  // Number of row groups, readable in any order; for Arrow files, of record batches.
  std::int64_t groups() const;
  // Number of null values in a column, if the file states it.
  std::optional<std::int64_t> nulls(std::int64_t group, std::size_t column) const;

  // Reads a row group from its first row; the file must outlive it.
  class Cursor {
   public:
    Cursor(const ArrowFile& file, std::int64_t group);
    ~Cursor();
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;
    // Null after the last rows. Throws bad_input for a damaged file.
    std::shared_ptr<const RowBatch> next();

   private:
    const ArrowFile& file_;
    std::int64_t group_;
    ArrowPluginCursor* cursor_;
  };

 private:
  std::string path_;
  std::vector<std::string> columns_;
  ArrowPluginFile* file_ = nullptr;
};

// Whether the file begins like one that ArrowFile reads.
bool is_arrow_file(const std::string& path);

// Whether this build has the plug-in; it is not loaded.
bool has_arrow_plugin();

}  // namespace trireme
