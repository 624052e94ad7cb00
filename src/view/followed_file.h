// Reads the new lines of a file that another process appends to, each of them once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace trireme {

class FollowedFile {
 public:
  // The file need not be there yet.
  explicit FollowedFile(fs::path path) : path_(std::move(path)) {}

  const fs::path& path() const { return path_; }

  // Looks at the file. True where it no longer begins with what was read: it was replaced, cut or
  // removed. The next read() then starts at its first line.
  bool was_replaced();
  // Hands over whole lines without their ends, at most about `budget` bytes of them; the last one
  // waits until its end is written. False where there is more to read.
  bool read(std::size_t budget, const std::function<void(std::string_view)>& line);

  // Fault to report to the viewers of the run, or "".
  std::string fault() const;
  bool is_there() const { return there_; }

 private:
  // Longer lines are left out: none of ours comes near.
  static constexpr std::size_t longest_line = 64 << 10;
  // Bytes before the position of the next read that identify the file.
  static constexpr std::size_t seam_bytes = 256;

  bool begins_as_before(const File& file) const;
  std::size_t hand_over(std::string_view text, const std::function<void(std::string_view)>& line);

  fs::path path_;
  std::uint64_t offset_ = 0;  // of the first line that was not handed over
  std::string seam_;
  std::string error_;
  std::int64_t too_long_ = 0;
  bool there_ = false, inside_long_line_ = false;
};

}  // namespace trireme
