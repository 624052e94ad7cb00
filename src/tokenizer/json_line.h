// Texts in a line of JSON, read as patiently as Python's json module and in memory of the line's
// own size: numbers of any size, NaN and infinities, ill-formed UTF-8 and lone surrogates.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class JsonLine {
 public:
  // `choice` is what the user sets to read another key, for the message about one that is missing.
  explicit JsonLine(std::vector<std::string> keys, std::string choice = {})
      : keys_(std::move(keys)), choice_(std::move(choice)) {}

  // The texts at each key of the object in a line: one for a string, or those of a list. They are
  // valid UTF-8 (what was ill-formed is U+FFFD) and live as long as the line, until the next call.
  // The last of duplicate keys counts. Throws bad_input with the reason, without file and line, for
  // a line that is not JSON or not an object, or lacks a key or the right type of its value.
  const std::vector<std::vector<std::string_view>>& read(std::string_view line);
  // Whether the last line's texts had bytes that are not UTF-8.
  bool repaired() const { return repaired_; }

 private:
  std::string_view text_of(std::string_view quoted);

  std::vector<std::string> keys_;
  std::string choice_;
  std::vector<std::vector<std::string_view>> texts_;  // by key
  std::deque<std::string> decoded_;                   // what texts_ shows of strings with escapes
  bool repaired_ = false;
};

}  // namespace trireme
