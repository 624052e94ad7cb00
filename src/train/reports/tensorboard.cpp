// The wire format of event files: hand-written protobuf messages in TFRecord frames.
// Sources: tensorflow/core/util/event.proto, summary.proto and lib/io/record_writer (formats only).
#include "train/reports/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/protobuf.h"
#include "train/reports/log_file.h"

namespace trireme {
namespace {

constexpr const char* kPrefix = "events.out.tfevents.";
constexpr const char* kBySamples = " vs samples";

using namespace protobuf;

// Event { double wall_time = 1; int64 step = 2; ... }
std::string event_head(double wall_time, std::int64_t step) {
  std::string event;
  put_key(event, 1, Wire::fixed64);
  put(event, wall_time);
  put_integer(event, 2, step);
  return event;
}

// Event { string file_version = 3 }, the first of every file.
std::string version_event(double wall_time) {
  std::string event = event_head(wall_time, 0);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

double now() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "host";
  return name.data();
}

// Returns a file name unique in the folder, even if two runs start within the same second.
fs::path new_path(const fs::path& folder) {
  const auto seconds = static_cast<std::int64_t>(now());
  for (int number = 0;; ++number) {
    fs::path path = folder / fmt::format("{}{:010}.{}.{}.{}", kPrefix, seconds, host_name(),
                                         ::getpid(), number);
    if (!fs::exists(path)) return path;
  }
}

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0u);
    table[i] = crc;
  }
  return table;
}

// Returns the record at the beginning of `bytes`; empty if it is incomplete or invalid.
std::string_view first_record(std::string_view bytes) {
  constexpr std::size_t kFrame = 16;  // length, its checksum, the checksum of the bytes
  if (bytes.size() < kFrame) return {};
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  if (size > bytes.size() - kFrame) return {};
  const std::string_view record = bytes.substr(0, size + kFrame);
  return record == tfrecord(record.substr(12, size)) ? record : std::string_view{};
}

// Returns the step of an event written with event_head().
std::int64_t step_of(std::string_view event) {
  constexpr std::size_t kStep = 10;  // after the wall time and the key of the step
  std::uint64_t step = 0;
  int shift = 0;
  for (std::size_t at = kStep; at < event.size() && shift < 64; ++at, shift += 7) {
    const auto byte = static_cast<std::uint8_t>(event[at]);
    step |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return static_cast<std::int64_t>(step);
}

// Truncates an event file at the first record that is torn or has a step above `last_step`. Events
// counted in samples follow the event of their step and are removed with it.
void cut(const fs::path& path, std::int64_t last_step) {
  const std::string bytes = read_file(path);
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const std::string_view record = first_record(rest);
    if (record.empty()) break;
    const bool by_samples = record.find(kBySamples) != std::string_view::npos;
    if (!by_samples && step_of(record.substr(12)) > last_step) break;
    rest.remove_prefix(record.size());
  }
  if (rest.empty()) return;
  File file(path, File::Mode::append);
  file.truncate(bytes.size() - rest.size());
  file.sync();
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<std::uint8_t>(c)) & 0xff];
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return std::rotr(crc, 15) + 0xa282ead8u;
}

std::string tfrecord(std::string_view bytes) {
  std::string record;
  put(record, static_cast<std::uint64_t>(bytes.size()));
  put(record, masked_crc32c(record));
  record += bytes;
  put(record, masked_crc32c(bytes));
  return record;
}

std::string scalar_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;  // Summary { repeated Value value = 1 }
  for (const Scalar& scalar : scalars) {
    std::string value;  // Value { string tag = 1; float simple_value = 2 }
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, Wire::fixed32);
    put(value, static_cast<float>(scalar.value));
    put_bytes(summary, 1, value);
  }
  std::string event = event_head(wall_time, step);
  put_bytes(event, 5, summary);
  return event;
}

TensorBoardFile::TensorBoardFile(const fs::path& folder, std::int64_t last_step) {
  make_folders(folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kPrefix)) cut(entry.path(), last_step);
  }
  file_ = File(new_path(folder), File::Mode::create);
  append(version_event(now()));
}

void TensorBoardFile::append(std::string_view event) {
  const std::string record = tfrecord(event);
  append_record(file_, record);
}

void TensorBoardFile::write(std::int64_t step, std::span<const Scalar> scalars) {
  append(scalar_event(now(), step, scalars));
}

void TensorBoardFile::write_both(std::int64_t step, std::int64_t samples,
                                 std::span<const Scalar> scalars) {
  write(step, scalars);
  std::vector<Scalar> by_samples(scalars.begin(), scalars.end());
  for (Scalar& scalar : by_samples) scalar.tag += kBySamples;
  write(samples, by_samples);
}

}  // namespace trireme
