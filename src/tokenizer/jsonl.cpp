// Reads a text out of a line of JSON.
#include "tokenizer/jsonl.h"

#include "base/error.h"
#include "tokenizer/json_line.h"

namespace trireme {

std::string json_line_text(std::string_view line, const std::string& key, const std::string& file,
                           std::size_t line_number) {
  try {
    JsonLine reader({key});
    const auto& texts = reader.read(line);
    if (texts[0].size() == 1) return std::string(texts[0][0]);
  } catch (const Error& error) {
    fail_input("'{}' line {}: {}", file, line_number, error.what());
  }
  fail_input("'{}' line {}: the value of \"{}\" is a list, not a string", file, line_number, key);
}

}  // namespace trireme
