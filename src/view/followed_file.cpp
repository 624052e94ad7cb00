// Continues after the last read, if the bytes before that position are unchanged.
#include "view/followed_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "base/counted.h"
#include "view/own_file.h"

namespace trireme {

bool FollowedFile::begins_as_before(const File& file) const {
  if (file.size() < offset_) return false;
  std::string now(seam_.size(), '\0');
  file.read_at(offset_ - seam_.size(), now.data(), now.size());
  return now == seam_;
}

bool FollowedFile::was_replaced() {
  error_.clear();
  there_ = is_own_file(path_);
  if (offset_ == 0) return false;
  try {
    if (there_ && begins_as_before(open_own_file(path_))) return false;
  } catch (const std::exception& error) {
    error_ = error.what();
    return false;
  }
  offset_ = 0;
  seam_.clear();
  too_long_ = 0;
  inside_long_line_ = false;
  return true;
}

// Returns the number of bytes of the text that were consumed.
std::size_t FollowedFile::hand_over(std::string_view text,
                                    const std::function<void(std::string_view)>& line) {
  std::size_t done = 0;
  while (done < text.size()) {
    const std::size_t end = text.find('\n', done);
    const std::size_t length = (end == std::string_view::npos ? text.size() : end) - done;
    if (inside_long_line_ || length > longest_line) {
      if (!inside_long_line_) ++too_long_;
      inside_long_line_ = end == std::string_view::npos;
      done += length + (inside_long_line_ ? 0 : 1);
      continue;
    }
    if (end == std::string_view::npos) break;
    line(text.substr(done, length));
    done = end + 1;
  }
  return done;
}

bool FollowedFile::read(std::size_t budget, const std::function<void(std::string_view)>& line) {
  if (!there_ || !error_.empty()) return true;
  try {
    const File file = open_own_file(path_);
    const std::uint64_t size = file.size();
    std::string text;
    while (offset_ < size) {
      if (budget == 0) return false;
      text.resize(std::min<std::uint64_t>(size - offset_, 1 << 20));
      file.read_at(offset_, text.data(), text.size());
      const std::size_t done = hand_over(text, line);
      if (done == 0) break;  // incomplete line
      const std::size_t kept = std::min(done, seam_bytes);
      seam_ = text.substr(done - kept, kept);
      offset_ += done;
      budget -= std::min(budget, done);
    }
  } catch (const std::exception& error) {  // truncated while reading: the next call detects it
    error_ = error.what();
  }
  return true;
}

std::string FollowedFile::fault() const {
  if (!error_.empty()) return error_;
  if (too_long_ > 0)
    return fmt::format("{}: skipped {} of more than {} bytes", path_.filename().string(),
                       counted(too_long_, "line"), longest_line);
  return {};
}

}  // namespace trireme
