// Parses with nlohmann's library and rewords its error messages.
#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/foreign_bytes.h"

namespace trireme {
namespace {

using nlohmann::json;

struct Wording {
  const char* keyword;  // in nlohmann's message
  const char* ours;
};
// The first match wins.
constexpr Wording wordings[] = {
    {"unexpected end of input", "the text ends before its value is complete"},
    {"missing closing quote", "a string has no closing quote"},
    {"control character", "a string contains an unescaped control character, such as a line break"},
    {"ill-formed UTF-8", "a string is not UTF-8"},
    {"surrogate", "a string contains half of a surrogate pair"},
    {"invalid string", "a backslash in a string does not begin an escape"},
    {"invalid number", "a number is malformed"},
    {"number overflow", "a number is too large"},
    {"expected end of input", "unexpected text after the end"},
    {"parsing object key", "expected a key in double quotes"},
    {"parsing object separator", "expected a ':'"},
    {"parsing object", "expected a ',' or '}'"},
    {"parsing array", "expected a ',' or ']'"},
};

JsonFault fault_at(std::string_view text, std::size_t byte, std::string what) {
  JsonFault fault{.what = std::move(what)};
  const std::size_t index = std::min(byte > 0 ? byte - 1 : 0, text.size());
  for (const char c : text.substr(0, index)) {
    if (c == '\n') {
      ++fault.line;
      fault.column = 1;
    } else if ((c & 0xC0) != 0x80) {  // not a continuation byte
      ++fault.column;
    }
  }
  return fault;
}

// Position (from 1) of the bracket that exceeds the maximum depth; 0 if there is none.
std::size_t too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_json_depth) return i + 1;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return 0;
}

// For a number out of range, the library reports the quoted number but not its position.
std::size_t byte_of_number(std::string_view text, std::string_view words) {
  const std::size_t begin = words.find('\'') + 1;
  const std::size_t found = text.find(words.substr(begin, words.rfind('\'') - begin));
  return found == text.npos ? 1 : found + 1;
}

}  // namespace

JsonFault json_fault(std::string_view text, std::size_t byte, std::string_view library_words) {
  if (text.find_first_not_of(" \t\r\n") == text.npos) return fault_at(text, 1, "the text is empty");
  for (const auto& [keyword, ours] : wordings) {
    if (library_words.find(keyword) != library_words.npos) return fault_at(text, byte, ours);
  }
  return fault_at(text, byte, "expected a value");
}

json parse_json(std::string_view text, const std::function<void(const JsonFault&)>& on_fault) {
  if (const std::size_t byte = too_deep(text); byte > 0) {
    on_fault(fault_at(text, byte,
                      fmt::format("values are nested more than {} levels deep", max_json_depth)));
  }
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    on_fault(json_fault(text, error.byte, error.what()));
  } catch (const json::out_of_range& error) {
    on_fault(json_fault(text, byte_of_number(text, error.what()), error.what()));
  }
  TRIREME_CHECK(!"on_fault has thrown");
  return {};
}

json parse_json(std::string_view text, const std::string& name) {
  return parse_json(text, [&](const JsonFault& fault) {
    refuse_if_foreign(name, text);
    fail_input("'{}' is not JSON: line {}, column {}: {}", name, fault.line, fault.column,
               fault.what);
  });
}

std::string json_shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  const std::string kind = value.is_string()   ? "the string "
                           : value.is_number() ? "the number "
                                               : "";
  return kind + (text.size() <= 80 ? text : text.substr(0, 77) + "...");
}

std::string json_keys_shown(const json& object) {
  constexpr std::size_t most = 8, longest = 40;
  if (object.empty()) return "it has no keys";
  std::string shown;
  std::size_t count = 0;
  for (const auto& [key, value] : object.items()) {
    if (count++ == most) break;
    const std::string name = key.size() <= longest ? key : key.substr(0, longest) + "...";
    shown += (shown.empty() ? "" : ", ") +
             json(name).dump(-1, ' ', false, json::error_handler_t::replace);
  }
  if (object.size() > most) shown += fmt::format(" and {} more", object.size() - most);
  return (object.size() == 1 ? "its key is " : "its keys are ") + shown;
}

}  // namespace trireme
