// A file of Arrow or Parquet as groups of record batches.
#pragma once

#include <arrow/api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "data/arrow/columns.h"

namespace trireme::arrow_plugin {

class Batches {
 public:
  virtual ~Batches() = default;
  virtual std::shared_ptr<arrow::RecordBatch> next() = 0;  // null: the end
};

class Source {
 public:
  explicit Source(Columns columns) : columns_(std::move(columns)) {}
  virtual ~Source() = default;
  virtual std::int64_t groups() const = 0;
  virtual std::int64_t nulls(std::int64_t, int) const { return -1; }
  virtual std::unique_ptr<Batches> read(std::int64_t group) = 0;
  const Columns& columns() const { return columns_; }

 protected:
  Columns columns_;
};

// Opens a file of Parquet or of either format of Arrow, by its first bytes.
std::unique_ptr<Source> open_source(const std::string& path, Columns columns);

}  // namespace trireme::arrow_plugin
