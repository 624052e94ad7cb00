// Columns of a record batch as texts that lie in its memory.
#pragma once

#include <arrow/api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/arrow/plugin.h"

namespace trireme::arrow_plugin {

using Texts = std::vector<ArrowPluginText>;
using Columns = std::vector<std::string>;

// A column of a batch.
struct ColumnTexts {
  Texts texts;
  bool lists = false;
  std::vector<std::int64_t> ends;  // of lists
};

struct Rows : ArrowPluginRows {
  std::shared_ptr<arrow::RecordBatch> batch;  // holds the bytes
  std::vector<ColumnTexts> texts;
  std::vector<ArrowPluginColumn> starts;
};

// The texts of the columns. Refuses a batch that lacks one.
std::unique_ptr<Rows> texts_of(std::shared_ptr<arrow::RecordBatch> batch, const Columns& columns);

// The place of each column in the schema. Refuses what is not a column of texts.
std::vector<int> places_of(const arrow::Schema& schema, const Columns& columns);

}  // namespace trireme::arrow_plugin
