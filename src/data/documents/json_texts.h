// The texts of lines of JSON: {"text": "..."} or {"text": ["a sentence.", "another."]}.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Settings that choose the key or column, for messages.
inline constexpr const char* key_choice = "--json-keys or data.source_keys";

class JsonTexts {
 public:
  explicit JsonTexts(std::vector<std::string> keys);
  ~JsonTexts();

  // Reads one line; `Chunk::padding` bytes after it must be readable. Returns for each key the
  // texts of its value, one for a string; they are valid UTF-8 (what was ill-formed is U+FFFD) and
  // live until the next call. Of a duplicate key the last counts, as in Python. Throws
  // bad_input with the reason, without file and line, for a line that is not JSON or not an object,
  // lacks a key or has another kind of value there.
  const std::vector<std::vector<std::string_view>>& read(std::string_view line);
  // Whether the last line's texts had bytes that are not UTF-8.
  bool repaired() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
