// Readers of Parquet files, and of the file and the stream format of Arrow.
#include "data/arrow/source.h"

#include <arrow/io/file.h>
#include <arrow/ipc/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/statistics.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "data/arrow/status.h"

namespace trireme::arrow_plugin {
namespace {

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
    if (head_.empty()) refuse("it contains no schema");
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
    if (bytes->size() != sizeof(prefix)) refuse("it is truncated in a message header");
    std::memcpy(prefix, bytes->data(), sizeof(prefix));
    if (prefix[0] != -1) refuse("a message of the stream has an invalid header");
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

}  // namespace

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
  refuse("it is neither Parquet nor Arrow");
}

}  // namespace trireme::arrow_plugin
