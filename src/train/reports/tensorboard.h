// TensorBoard event files, written without TensorFlow or protobuf.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace trireme {

// A scalar under a tag such as "lm loss".
struct Scalar {
  std::string tag;
  double value;
};

// CRC-32C (Castagnoli) of the bytes, and the masked form stored in TFRecord files.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

// A record of a TFRecord file: length, its checksum, bytes, their checksum.
std::string tfrecord(std::string_view bytes);

// Serializes an Event with a Summary of scalars (stored as 32-bit floats by the format).
std::string scalar_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars);

class TensorBoardFile {
 public:
  // Creates `folder`/events.out.tfevents.<time>.<host>.<process>.<number>. A run that resumes after
  // `last_step` removes later steps from earlier files in the folder, so that no step appears
  // twice; a new run passes 0.
  TensorBoardFile(const fs::path& folder, std::int64_t last_step);

  // Appends one event with all scalars at `step` and the current time.
  void write(std::int64_t step, std::span<const Scalar> scalars);

  // Writes each scalar twice: as "tag" at `step` and as "tag vs samples" at `samples`.
  void write_both(std::int64_t step, std::int64_t samples, std::span<const Scalar> scalars);

  const fs::path& path() const { return file_.path(); }

 private:
  void append(std::string_view event);

  File file_;
};

}  // namespace trireme
