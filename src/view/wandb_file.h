// Writer for Weights & Biases' offline run files (.wandb), independent of its library.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"

namespace trireme {

// A name, and its value as JSON.
using WandbItem = std::pair<std::string, std::string>;

// Name and location of a run.
struct WandbRun {
  std::string id, project, entity, name;  // entity "": the default of the sender
  double start = 0;                       // seconds since 1970
};

// A file in LevelDB's log format: blocks of 32 KiB, records split at block ends, each fragment with
// a CRC-32 of type and data. Each record is a Weights & Biases message. Format reference:
// wandb/proto/wandb_internal.proto and the files of wandb 0.31.
class WandbFile {
 public:
  // Creates a file with the header that identifies the writer.
  explicit WandbFile(const fs::path& path);

  void write_run(const WandbRun& run, std::span<const WandbItem> config);
  // Appends one step's values to the history.
  void write_row(std::int64_t step, std::span<const WandbItem> values);
  void write_summary(std::span<const WandbItem> values);
  // `seconds`: duration of the full run.
  void write_exit(int code, double seconds);
  // Flushes buffered data durably. Must be the last call.
  void finish();

 private:
  void append(std::uint32_t kind, std::string_view message);
  void append_record(std::string_view record);
  void append_piece(std::uint8_t type, std::string_view bytes);

  File file_;
  std::string buffer_;
  std::uint64_t size_ = 0;  // of the file, with the buffer
  std::int64_t records_ = 0;
};

}  // namespace trireme
