// Lines of JSON that hold a text each: {"text": "..."}.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

// The string at `key` of one JSON object, as valid UTF-8: ill-formed bytes and lone surrogates
// become U+FFFD. Errors: a line that is not such an object is bad input; `file` and `line_number`
// (from 1) go into the message.
std::string json_line_text(std::string_view line, const std::string& key, const std::string& file,
                           std::size_t line_number);

// Calls on_line(line, number from 0) for each line that is not blank; a final "\r" is not part of
// it.
template <class OnLine>
void for_each_line(std::string_view text, OnLine&& on_line) {
  for (std::size_t number = 0; !text.empty(); ++number) {
    const std::size_t stop = text.find('\n');
    std::string_view line = text.substr(0, stop);
    text.remove_prefix(stop == std::string_view::npos ? text.size() : stop + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") != std::string_view::npos) on_line(line, number);
  }
}

}  // namespace trireme
