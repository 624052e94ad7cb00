// Follows a file that another process appends to, reading each new line once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace trireme {

class FollowedFile {
 public:
  // The file may not exist yet.
  explicit FollowedFile(fs::path path) : path_(std::move(path)) {}

  const fs::path& path() const { return path_; }

  // Checks the file. Returns true if its beginning no longer matches what was read: it was
  // replaced, truncated or removed. The next read() then starts at the first line.
  bool was_replaced();
  // Passes on complete lines without line ends, about `budget` bytes at most; an incomplete last
  // line is kept back. Returns false if there is more to read.
  bool read(std::size_t budget, const std::function<void(std::string_view)>& line);

  // Error to show to viewers of the run, or "".
  std::string fault() const;
  bool is_there() const { return there_; }

 private:
  // Longer lines are skipped: ours are much shorter.
  static constexpr std::size_t longest_line = 64 << 10;
  // Bytes before the position of the next read that identify the file.
  static constexpr std::size_t seam_bytes = 256;

  bool begins_as_before(const File& file) const;
  std::size_t hand_over(std::string_view text, const std::function<void(std::string_view)>& line);

  fs::path path_;
  std::uint64_t offset_ = 0;  // of the first line not yet passed on
  std::string seam_;
  std::string error_;
  std::int64_t too_long_ = 0;
  bool there_ = false, inside_long_line_ = false;
};

}  // namespace trireme
