// The Arrow library behind a plain interface; the one file that is compiled with Arrow's headers.
#include "data/arrow/plugin.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/statistics.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Texts = std::vector<trireme::ArrowPluginText>;
using Columns = std::vector<std::string>;

// Thrown inside the plug-in; no exception leaves it.
[[noreturn]] void refuse(const std::string& reason) {
  throw std::runtime_error(reason);
}

void check(const arrow::Status& status) {
  if (!status.ok()) refuse(status.message());
}

template <class T>
T checked(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

// --- Columns to texts ---

// Files are not trusted: the offsets of a damaged one may point anywhere.
template <class Array>
void add_texts(const arrow::Array& values, Texts& texts) {
  const auto& array = static_cast<const Array&>(values);
  static const char nothing = 0;
  const char* const begin =
      array.value_data() ? reinterpret_cast<const char*>(array.value_data()->data()) : &nothing;
  const std::int64_t size = array.value_data() ? array.value_data()->size() : 0;
  for (std::int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) {
      texts.push_back({nullptr, 0});
      continue;
    }
    const std::int64_t first = array.value_offset(i), last = array.value_offset(i + 1);
    if (first < 0 || last < first || last > size) refuse("its texts do not lie where it says");
    texts.push_back({begin + first, last - first});
  }
}

// Columns of kinds that are seldom used; they are checked as a whole.
template <class Array>
void add_checked_texts(const arrow::Array& values, Texts& texts) {
  check(values.ValidateFull());
  const auto& array = static_cast<const Array&>(values);
  for (std::int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) {
      texts.push_back({nullptr, 0});
      continue;
    }
    const std::string_view text = array.GetView(i);
    texts.push_back({text.data() ? text.data() : "", static_cast<std::int64_t>(text.size())});
  }
}

void add_any_texts(const arrow::Array& values, Texts& texts);

void add_dictionary_texts(const arrow::Array& values, Texts& texts) {
  check(values.ValidateFull());
  const auto& array = static_cast<const arrow::DictionaryArray&>(values);
  Texts words;
  add_any_texts(*array.dictionary(), words);
  for (std::int64_t i = 0; i < array.length(); ++i) {
    texts.push_back(array.IsNull(i) ? trireme::ArrowPluginText{nullptr, 0}
                                    : words[static_cast<std::size_t>(array.GetValueIndex(i))]);
  }
}

void add_any_texts(const arrow::Array& values, Texts& texts) {
  check(values.Validate());
  switch (values.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return add_texts<arrow::BinaryArray>(values, texts);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return add_texts<arrow::LargeBinaryArray>(values, texts);
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return add_checked_texts<arrow::BinaryViewArray>(values, texts);
    case arrow::Type::DICTIONARY:
      return add_dictionary_texts(values, texts);
    default:
      refuse("a column of texts holds " + values.type()->ToString());
  }
}

bool is_text(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return is_text(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  return arrow::is_base_binary_like(type.id()) || arrow::is_binary_view_like(type.id());
}

bool is_list_of_texts(const arrow::DataType& type) {
  const bool list = arrow::is_list_like(type.id()) || arrow::is_list_view(type);
  return list && type.id() != arrow::Type::MAP && is_text(*type.field(0)->type());
}

// A column of a batch.
struct ColumnTexts {
  Texts texts;
  bool lists = false;
  std::vector<std::int64_t> ends;  // of lists
};

template <class Array>
void add_lists(const arrow::Array& values, ColumnTexts& column) {
  check(values.ValidateFull());
  const auto& array = static_cast<const Array&>(values);
  Texts words;
  add_any_texts(*array.values(), words);
  for (std::int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) {
      column.texts.push_back({nullptr, 0});
    } else {
      const auto first = words.begin() + array.value_offset(i);
      column.texts.insert(column.texts.end(), first, first + array.value_length(i));
    }
    column.ends.push_back(static_cast<std::int64_t>(column.texts.size()));
  }
}

void add_column(const arrow::Array& values, ColumnTexts& column) {
  column.lists = is_list_of_texts(*values.type());
  switch (column.lists ? values.type_id() : arrow::Type::NA) {
    case arrow::Type::LIST:
      return add_lists<arrow::ListArray>(values, column);
    case arrow::Type::LARGE_LIST:
      return add_lists<arrow::LargeListArray>(values, column);
    case arrow::Type::FIXED_SIZE_LIST:
      return add_lists<arrow::FixedSizeListArray>(values, column);
    case arrow::Type::LIST_VIEW:
      return add_lists<arrow::ListViewArray>(values, column);
    case arrow::Type::LARGE_LIST_VIEW:
      return add_lists<arrow::LargeListViewArray>(values, column);
    default:
      column.texts.reserve(static_cast<std::size_t>(values.length()));
      add_any_texts(values, column.texts);
  }
}

struct Rows : trireme::ArrowPluginRows {
  std::shared_ptr<arrow::RecordBatch> batch;  // holds the bytes
  std::vector<ColumnTexts> texts;
  std::vector<trireme::ArrowPluginColumn> starts;
};

std::unique_ptr<Rows> texts_of(std::shared_ptr<arrow::RecordBatch> batch, const Columns& columns) {
  auto rows = std::make_unique<Rows>();
  rows->rows = batch->num_rows();
  for (const std::string& name : columns) {
    const std::shared_ptr<arrow::Array> values = batch->GetColumnByName(name);
    if (!values) refuse("a batch lacks the column \"" + name + "\"");
    ColumnTexts& column = rows->texts.emplace_back();
    add_column(*values, column);
    const std::size_t count = column.lists ? column.ends.size() : column.texts.size();
    if (static_cast<std::int64_t>(count) != rows->rows) refuse("its columns differ in length");
  }
  for (const ColumnTexts& column : rows->texts) {
    rows->starts.push_back({column.texts.data(), column.lists ? column.ends.data() : nullptr});
  }
  rows->ArrowPluginRows::columns = rows->starts.data();
  rows->batch = std::move(batch);
  return rows;
}

// The place of each column in the schema. Refuses what is not a column of texts.
std::vector<int> places_of(const arrow::Schema& schema, const Columns& columns) {
  std::vector<int> places;
  for (const std::string& name : columns) {
    const std::vector<int> found = schema.GetAllFieldIndices(name);
    if (found.size() == 1) {
      const auto& type = *schema.field(found[0])->type();
      if (!is_text(type) && !is_list_of_texts(type)) {
        refuse("the column \"" + name + "\" has the type " + type.ToString() +
               "; expected texts (string or binary) or lists of them");
      }
      places.push_back(found[0]);
      continue;
    }
    if (found.size() > 1) refuse("it has several columns \"" + name + "\"");
    std::string there;
    for (const auto& field : schema.fields()) {
      there += (there.empty() ? "" : ", ") +
               ("\"" + field->name() + "\" (" + field->type()->ToString() + ")");
    }
    refuse("no column \"" + name + "\"; " +
           (there.empty() ? "it has no columns" : "the columns are " + there));
  }
  return places;
}

// --- Files ---

class Batches {
 public:
  virtual ~Batches() = default;
  virtual std::shared_ptr<arrow::RecordBatch> next() = 0;  // null: the end
};

// The record batches of a reader of Arrow's.
class ReaderBatches final : public Batches {
 public:
  explicit ReaderBatches(std::shared_ptr<arrow::RecordBatchReader> reader)
      : reader_(std::move(reader)) {}
  std::shared_ptr<arrow::RecordBatch> next() override { return checked(reader_->Next()); }

 private:
  std::shared_ptr<arrow::RecordBatchReader> reader_;
};

class OneBatch final : public Batches {
 public:
  explicit OneBatch(std::shared_ptr<arrow::RecordBatch> batch) : batch_(std::move(batch)) {}
  std::shared_ptr<arrow::RecordBatch> next() override { return std::move(batch_); }

 private:
  std::shared_ptr<arrow::RecordBatch> batch_;
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

class ParquetSource final : public Source {
 public:
  ParquetSource(std::shared_ptr<arrow::io::ReadableFile> file, Columns columns)
      : Source(std::move(columns)) {
    // A row group may be as large as memory: it is read a piece at a time.
    parquet::ReaderProperties reading(arrow::default_memory_pool());
    reading.enable_buffered_stream();
    reading.set_buffer_size(1 << 20);
    parquet::ArrowReaderProperties properties(/*use_threads=*/false);
    properties.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    check(builder.Open(std::move(file), reading));
    builder.properties(properties);
    check(builder.Build(&reader_));
    std::shared_ptr<arrow::Schema> schema;
    check(reader_->GetSchema(&schema));
    for (const int place : places_of(*schema, columns_)) {
      const auto* field = &reader_->manifest().schema_fields[static_cast<std::size_t>(place)];
      lists_.push_back(!field->children.empty());
      while (!field->children.empty()) field = &field->children.front();
      leaves_.push_back(field->column_index);
    }
  }

  std::int64_t groups() const override { return reader_->num_row_groups(); }

  std::int64_t nulls(std::int64_t group, int column) const override {
    if (lists_[static_cast<std::size_t>(column)]) return -1;  // they count elements
    const auto chunk = group_of(group)->ColumnChunk(leaves_[static_cast<std::size_t>(column)]);
    if (!chunk->is_stats_set()) return -1;
    const auto statistics = chunk->statistics();
    return statistics && statistics->HasNullCount() ? statistics->null_count() : -1;
  }

  std::unique_ptr<Batches> read(std::int64_t group) override {
    const auto chunks = group_of(group);
    std::int64_t bytes = 0;
    for (const int leaf : leaves_) {
      bytes += std::max<std::int64_t>(0, chunks->ColumnChunk(leaf)->total_uncompressed_size());
    }
    // About a megabyte at a time.
    const std::int64_t rows = std::max<std::int64_t>(1, chunks->num_rows());
    const std::int64_t row = std::max<std::int64_t>(1, bytes / rows);
    reader_->set_batch_size(std::clamp<std::int64_t>((1 << 20) / row, 16, 1 << 14));
    return std::make_unique<ReaderBatches>(
        checked(reader_->GetRecordBatchReader({static_cast<int>(group)}, leaves_)));
  }

 private:
  std::unique_ptr<parquet::RowGroupMetaData> group_of(std::int64_t group) const {
    return reader_->parquet_reader()->metadata()->RowGroup(static_cast<int>(group));
  }

  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<int> leaves_;
  std::vector<bool> lists_;  // by column
};

arrow::ipc::IpcReadOptions options_of(std::vector<int> places = {}) {
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  std::ranges::sort(places);  // as Arrow wants them
  options.included_fields = std::move(places);
  return options;
}

class IpcFileSource final : public Source {
 public:
  IpcFileSource(const std::shared_ptr<arrow::io::ReadableFile>& file, Columns columns)
      : Source(std::move(columns)) {
    reader_ = checked(arrow::ipc::RecordBatchFileReader::Open(file, options_of()));
    reader_ = checked(arrow::ipc::RecordBatchFileReader::Open(
        file, options_of(places_of(*reader_->schema(), columns_))));
  }
  std::int64_t groups() const override { return reader_->num_record_batches(); }
  std::unique_ptr<Batches> read(std::int64_t group) override {
    return std::make_unique<OneBatch>(checked(reader_->ReadRecordBatch(static_cast<int>(group))));
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
};

// A message of a stream: its place in the file.
struct Place {
  std::int64_t metadata = 0, metadata_size = 0, body = 0, body_size = 0;
};

std::unique_ptr<arrow::ipc::Message> read_message(arrow::io::ReadableFile& file, const Place& at,
                                                  bool with_body) {
  auto metadata = checked(file.ReadAt(at.metadata, at.metadata_size));
  std::shared_ptr<arrow::Buffer> body;
  if (with_body) body = checked(file.ReadAt(at.body, at.body_size));
  if (metadata->size() != at.metadata_size || (body && body->size() != at.body_size)) {
    refuse("it has become shorter");
  }
  return checked(arrow::ipc::Message::Open(std::move(metadata), std::move(body)));
}

// Gives some messages of a stream to a reader of Arrow's.
class SomeMessages final : public arrow::ipc::MessageReader {
 public:
  SomeMessages(std::shared_ptr<arrow::io::ReadableFile> file, std::vector<Place> places)
      : file_(std::move(file)), places_(std::move(places)) {}
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> ReadNextMessage() override {
    if (next_ == places_.size()) return std::unique_ptr<arrow::ipc::Message>();
    return read_message(*file_, places_[next_++], true);
  }

 private:
  std::shared_ptr<arrow::io::ReadableFile> file_;
  std::vector<Place> places_;
  std::size_t next_ = 0;
};

// A stream has no index, as files that Hugging Face's library of datasets keeps: one is made from
// the heads of its messages, without reading what they hold.
class IpcStreamSource final : public Source {
 public:
  IpcStreamSource(std::shared_ptr<arrow::io::ReadableFile> file, Columns columns)
      : Source(std::move(columns)), file_(std::move(file)), size_(checked(file_->GetSize())) {
    Place place;
    for (std::int64_t at = 0; head(at, place); at = place.body + place.body_size) {
      const auto type = add(place);
      if (at == 0 && type != arrow::ipc::MessageType::SCHEMA) refuse("it begins without a schema");
    }
    if (head_.empty()) refuse("it holds no schema");
    places_ = places_of(*stream(0, {})->schema(), columns_);
  }

  std::int64_t groups() const override { return static_cast<std::int64_t>(batches_.size()); }
  std::unique_ptr<Batches> read(std::int64_t group) override {
    const Batch& batch = batches_[static_cast<std::size_t>(group)];
    return std::make_unique<ReaderBatches>(stream(batch.head, {batch.place}));
  }

 private:
  struct Batch {
    Place place;
    std::size_t head;  // messages of head_ before it
  };

  // The message at `at`: four bytes of all ones, the size of its metadata, metadata, body. False at
  // the end.
  bool head(std::int64_t at, Place& place) {
    if (at == size_) return false;
    std::int32_t prefix[2];
    const auto bytes = checked(file_->ReadAt(at, sizeof(prefix)));
    if (bytes->size() != sizeof(prefix)) refuse("it is truncated in the head of a message");
    std::memcpy(prefix, bytes->data(), sizeof(prefix));
    if (prefix[0] != -1) refuse("a message of the stream does not begin like one");
    if (prefix[1] == 0) return false;  // the mark of the end
    place.metadata = at + static_cast<std::int64_t>(sizeof(prefix));
    place.metadata_size = prefix[1];
    place.body = place.metadata + place.metadata_size;
    if (place.metadata_size < 0 || place.body > size_) refuse("it is truncated in a message");
    return true;
  }

  arrow::ipc::MessageType add(Place& place) {
    const auto message = read_message(*file_, place, false);
    place.body_size = message->body_length();
    if (place.body_size < 0 || place.body_size > size_ - place.body) {
      refuse("it is truncated: its record batch " + std::to_string(batches_.size()) + " needs " +
             std::to_string(place.body_size) + " bytes, and " + std::to_string(size_ - place.body) +
             " are there");
    }
    if (message->type() == arrow::ipc::MessageType::RECORD_BATCH) {
      batches_.push_back({place, head_.size()});
    } else {
      head_.push_back(place);
    }
    return message->type();
  }

  std::shared_ptr<arrow::RecordBatchReader> stream(std::size_t head, std::vector<Place> batches) {
    std::vector<Place> messages(
        head_.begin(), head_.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(head, 1)));
    messages.insert(messages.end(), batches.begin(), batches.end());
    return checked(arrow::ipc::RecordBatchStreamReader::Open(
        std::make_unique<SomeMessages>(file_, std::move(messages)), options_of(places_)));
  }

  std::shared_ptr<arrow::io::ReadableFile> file_;
  const std::int64_t size_;
  std::vector<Place> head_;  // the schema, then dictionaries
  std::vector<Batch> batches_;
  std::vector<int> places_;
};

std::unique_ptr<Source> open_source(const std::string& path, Columns columns) {
  const auto file = checked(arrow::io::ReadableFile::Open(path));
  const auto begin = checked(file->ReadAt(0, 6));
  const std::string_view bytes(reinterpret_cast<const char*>(begin->data()),
                               static_cast<std::size_t>(begin->size()));
  if (bytes.starts_with("PAR1")) return std::make_unique<ParquetSource>(file, std::move(columns));
  if (bytes == "ARROW1") return std::make_unique<IpcFileSource>(file, std::move(columns));
  if (bytes.starts_with("\xff\xff\xff\xff")) {
    return std::make_unique<IpcStreamSource>(file, std::move(columns));
  }
  refuse("it begins neither like Parquet nor like Arrow");
}

// --- The interface ---

// Runs `body`; what it throws becomes the fault and `otherwise` the result.
template <class Result, class Body>
Result guarded(trireme::ArrowPluginFault* fault, Result otherwise, const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    std::snprintf(fault->reason, sizeof(fault->reason), "%s", error.what());
  } catch (...) {
    std::snprintf(fault->reason, sizeof(fault->reason), "the Arrow library failed");
  }
  return otherwise;
}

}  // namespace

namespace trireme {

struct ArrowPluginFile {
  std::unique_ptr<Source> source;
};

struct ArrowPluginCursor {
  const Columns& columns;
  std::unique_ptr<Batches> batches;
};

}  // namespace trireme

namespace {

using namespace trireme;

ArrowPluginFile* open_file(const char* path, const char* const* columns, int count,
                           ArrowPluginFault* fault) {
  return guarded<ArrowPluginFile*>(fault, nullptr, [&] {
    return new ArrowPluginFile{open_source(path, Columns(columns, columns + count))};
  });
}

std::int64_t nulls_of(const ArrowPluginFile* file, std::int64_t group, int column) {
  ArrowPluginFault ignored;
  return guarded<std::int64_t>(&ignored, -1, [&] { return file->source->nulls(group, column); });
}

ArrowPluginCursor* begin_group(ArrowPluginFile* file, std::int64_t group, ArrowPluginFault* fault) {
  return guarded<ArrowPluginCursor*>(fault, nullptr, [&] {
    return new ArrowPluginCursor{file->source->columns(), file->source->read(group)};
  });
}

int next_rows(ArrowPluginCursor* cursor, const ArrowPluginRows** rows, ArrowPluginFault* fault) {
  return guarded(fault, -1, [&] {
    auto batch = cursor->batches->next();
    if (!batch) return 0;
    *rows = texts_of(std::move(batch), cursor->columns).release();
    return 1;
  });
}

const ArrowPlugin plugin = {
    .version = arrow_plugin_version,
    .library = "Arrow " ARROW_VERSION_STRING,
    .open = open_file,
    .close = [](ArrowPluginFile* file) { delete file; },
    .groups = [](const ArrowPluginFile* file) { return file->source->groups(); },
    .nulls = nulls_of,
    .begin = begin_group,
    .next = next_rows,
    .end = [](ArrowPluginCursor* cursor) { delete cursor; },
    .release = [](const ArrowPluginRows* rows) { delete static_cast<const Rows*>(rows); },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const trireme::ArrowPlugin* trireme_arrow() {
  return &plugin;
}
