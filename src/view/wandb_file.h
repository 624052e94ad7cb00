// Weights & Biases' files of offline runs (.wandb), written without its program.
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

// A file of LevelDB's log format: blocks of 32 KiB, records cut into pieces at their ends, each
// with a CRC-32 of its type and bytes. Each record is a message of Weights & Biases. Format only:
// wandb/proto/wandb_internal.proto and what wandb 0.31 writes.
class WandbFile {
 public:
  // A new file, with the header that says who wrote it.
  explicit WandbFile(const fs::path& path);

  void write_run(const WandbRun& run, std::span<const WandbItem> config);
  // A row of the history: the values of one step.
  void write_row(std::int64_t step, std::span<const WandbItem> values);
  void write_summary(std::span<const WandbItem> values);
  // `seconds`: of the whole run.
  void write_exit(int code, double seconds);
  // Writes what is buffered, durably. Nothing may follow.
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
