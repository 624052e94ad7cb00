// Reads a text out of a line of JSON, tolerant of the faults that texts from the web have.
#include "tokenizer/jsonl.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

// The 16 bits of a \u escape of four hexadecimal digits at `at`, or -1.
int unicode_escape(std::string_view text, std::size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return -1;
  int value = 0;
  for (std::size_t i = at + 2; i < at + 6; ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

bool is_high_surrogate(int unit) {
  return unit >= 0xD800 && unit < 0xDC00;
}
bool is_low_surrogate(int unit) {
  return unit >= 0xDC00 && unit < 0xE000;
}

// Writes \uFFFD over surrogate escapes without a partner, which the JSON library refuses.
void replace_lone_surrogates(std::string& json) {
  for (std::size_t i = 0; i + 1 < json.size(); ++i) {
    if (json[i] != '\\') continue;
    const int unit = unicode_escape(json, i);
    if (is_high_surrogate(unit) && is_low_surrogate(unicode_escape(json, i + 6))) {
      i += 11;
    } else if (is_high_surrogate(unit) || is_low_surrogate(unit)) {
      json.replace(i, 6, "\\uFFFD");
      i += 5;
    } else {
      ++i;  // the escaped character
    }
  }
}

// Writes null over the numbers that Python's json module writes although they are not JSON.
void replace_non_numbers(std::string& json) {
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (in_string) {
      if (json[i] == '\\') {
        ++i;
      } else if (json[i] == '"') {
        in_string = false;
      }
      continue;
    }
    in_string = json[i] == '"';
    for (const std::string_view name : {"NaN", "-Infinity", "Infinity"}) {
      if (json.compare(i, name.size(), name) == 0) json.replace(i, name.size(), "null");
    }
  }
}

}  // namespace

std::string repaired_json(std::string_view line) {
  std::string json = to_valid_utf8(line);
  replace_lone_surrogates(json);
  if (json.find("NaN") != json.npos || json.find("Infinity") != json.npos) {
    replace_non_numbers(json);
  }
  return json;
}

std::string json_line_text(std::string_view line, const std::string& key, const std::string& file,
                           std::size_t line_number) {
  const nlohmann::json object = parse_json(repaired_json(line), [&](const JsonFault& fault) {
    fail_input("'{}' line {} is not JSON: column {}: {}", file, line_number, fault.column,
               fault.what);
  });
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) {
    fail_input("'{}' line {} has no key '{}'{}", file, line_number, key,
               object.is_object() ? "; " + json_keys_shown(object) : "");
  }
  if (!found->is_string()) {
    fail_input("'{}' line {}: the value of '{}' is {}, not a string", file, line_number, key,
               json_shown(*found));
  }
  return found->get<std::string>();
}

}  // namespace trireme
