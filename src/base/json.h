// Parses JSON and describes syntax errors and unexpected values in plain words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// A syntax error and its position. Lines and columns count from 1.
struct JsonFault {
  std::size_t line = 1, column = 1;
  std::string what;
};

// The library's error at a byte (from 1), reworded.
JsonFault json_fault(std::string_view text, std::size_t byte, std::string_view library_words);

// Maximum nesting depth; deeper values are refused, because code that visits them may recurse.
inline constexpr int max_json_depth = 256;

// Parses a text. Bad input (exit code 2): "'NAME' is not JSON: line 3, column 7: ...".
nlohmann::json parse_json(std::string_view text, const std::string& name);
// Same, but with the caller's error message: `on_fault` must throw.
nlohmann::json parse_json(std::string_view text,
                          const std::function<void(const JsonFault&)>& on_fault);

// Formats an unexpected value for a message: `the string "12"`, `a list`, `null`.
std::string json_shown(const nlohmann::json& value);
// Lists the keys of an object for a message: `its keys are "a", "b" and 3 more`.
std::string json_keys_shown(const nlohmann::json& object);

// Keys of an object, qualified by their sections ("fp16.consecutive_hysteresis"), that are neither
// in `known` nor nested below a known key.
std::vector<std::string> json_other_keys(const nlohmann::json& object,
                                         std::span<const std::string_view> known);

// A section of an object, read key by key. Every error message (exit code 2) names the file, the
// section, the key and the value.
class JsonSection {
 public:
  // `path` and `json` must outlive this object.
  JsonSection(const std::string& path, const nlohmann::json& json, std::string name);

  std::string text(const char* key) const;
  std::int64_t count(const char* key) const;  // at least 1
  // Returns nullopt if the key is absent, null or "auto".
  std::optional<bool> flag(const char* key) const;
  JsonSection section(const char* key) const;
  [[noreturn]] void refuse(const char* key, const std::string& why) const;

 private:
  const nlohmann::json& at(const char* key) const;

  const std::string& path_;
  const nlohmann::json& json_;
  std::string name_;
};

}  // namespace trireme
