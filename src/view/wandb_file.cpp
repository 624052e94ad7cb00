// Records of protobuf messages in blocks.
#include "view/wandb_file.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "base/protobuf.h"

namespace trireme {
namespace {

using namespace protobuf;

constexpr std::size_t block = 32 << 10, piece_head = 7, buffered = 1 << 20;

// Position of a piece in its record.
enum Piece : std::uint8_t { whole = 1, first = 2, middle = 3, last = 4 };

// Fields of the message Record.
enum Kind : std::uint32_t { history = 2, summary = 3, run = 17, exit_record = 18, header = 21 };

// HistoryItem, SummaryItem and ConfigItem { string key = 1; string value_json = 16 }
void put_items(std::string& out, std::uint32_t field, std::span<const WandbItem> items) {
  for (const auto& [key, json] : items) {
    std::string item;
    put_bytes(item, 1, key);
    put_bytes(item, 16, json);
    put_bytes(out, field, item);
  }
}

// google.protobuf.Timestamp { int64 seconds = 1; int32 nanos = 2 }
std::string timestamp(double seconds) {
  std::string out;
  const double whole_seconds = std::floor(seconds);
  put_integer(out, 1, static_cast<std::int64_t>(whole_seconds));
  put_integer(out, 2, static_cast<std::int64_t>((seconds - whole_seconds) * 1e9));
  return out;
}

}  // namespace

WandbFile::WandbFile(const fs::path& path) : file_(path, File::Mode::create) {
  buffer_ = ":W&B";
  put(buffer_, std::uint16_t{0xbee1});
  put(buffer_, std::uint8_t{0});  // version
  size_ = buffer_.size();
  std::string version;  // VersionInfo { string producer = 1; string min_consumer = 2 }
  put_bytes(version, 1, "trireme");
  put_bytes(version, 2, "0.70.0");
  std::string message;
  put_bytes(message, 1, version);
  append(header, message);
}

void WandbFile::write_run(const WandbRun& named, std::span<const WandbItem> config) {
  std::string updates;
  put_items(updates, 1, config);
  std::string message;
  put_bytes(message, 1, named.id);
  if (!named.entity.empty()) put_bytes(message, 2, named.entity);
  put_bytes(message, 3, named.project);
  put_bytes(message, 4, updates);
  put_bytes(message, 8, named.name);
  put_bytes(message, 17, timestamp(named.start));
  append(run, message);
}

void WandbFile::write_row(std::int64_t step, std::span<const WandbItem> values) {
  std::string message, number;
  put_items(message, 1, values);
  put_integer(number, 1, step);
  put_bytes(message, 2, number);
  append(history, message);
}

void WandbFile::write_summary(std::span<const WandbItem> values) {
  std::string message;
  put_items(message, 1, values);
  append(summary, message);
}

void WandbFile::write_exit(int code, double seconds) {
  std::string message;
  put_integer(message, 1, code);
  put_integer(message, 2, std::llround(seconds));
  append(exit_record, message);
}

void WandbFile::finish() {
  file_.write(buffer_.data(), buffer_.size());
  buffer_.clear();
  file_.sync();
}

// Record { int64 num = 1; oneof { the message } }
void WandbFile::append(std::uint32_t kind, std::string_view message) {
  std::string record;
  put_integer(record, 1, ++records_);
  put_bytes(record, kind, message);
  append_record(record);
}

void WandbFile::append_record(std::string_view record) {
  for (bool begun = false;; begun = true) {
    std::size_t room = block - size_ % block;
    if (room < piece_head) {  // no head fits: zeros
      buffer_.append(room, '\0');
      size_ += room;
      room = block;
    }
    const std::string_view bytes = record.substr(0, room - piece_head);
    record.remove_prefix(bytes.size());
    const bool ends = record.empty();
    append_piece(begun ? (ends ? last : middle) : (ends ? whole : first), bytes);
    if (ends) break;
  }
  if (buffer_.size() < buffered) return;
  file_.write(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void WandbFile::append_piece(std::uint8_t type, std::string_view bytes) {
  const auto* const data = reinterpret_cast<const Bytef*>(bytes.data());
  const uLong crc = ::crc32(::crc32(0, &type, 1), data, static_cast<uInt>(bytes.size()));
  put(buffer_, static_cast<std::uint32_t>(crc));
  put(buffer_, static_cast<std::uint16_t>(bytes.size()));
  put(buffer_, type);
  buffer_ += bytes;
  size_ += piece_head + bytes.size();
}

}  // namespace trireme
