// Parses JSON texts and describes in plain words what is wrong with a text or a value.
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

// Why a text is not JSON, and at which of its characters that shows. Lines and columns from 1.
struct JsonFault {
  std::size_t line = 1, column = 1;
  std::string what;
};

// The library's fault at a byte (from 1), in our words.
JsonFault json_fault(std::string_view text, std::size_t byte, std::string_view library_words);

// Values deeper within others are refused: what handles a value may recurse.
inline constexpr int max_json_depth = 256;

// Parses a text. Bad input (exit code 2): "'NAME' is not JSON: line 3, column 7: ...".
nlohmann::json parse_json(std::string_view text, const std::string& name);
// The same with a message of the caller's: `on_fault` must throw.
nlohmann::json parse_json(std::string_view text,
                          const std::function<void(const JsonFault&)>& on_fault);

// How a message shows a value that it did not expect: `the string "12"`, `a list`, `null`.
std::string json_shown(const nlohmann::json& value);
// The keys of an object as a message names them: `its keys are "a", "b" and 3 more`.
std::string json_keys_shown(const nlohmann::json& object);

// The keys of an object that are neither among `known` nor below one of them, with the names of
// their sections: "fp16.consecutive_hysteresis".
std::vector<std::string> json_other_keys(const nlohmann::json& object,
                                         std::span<const std::string_view> known);

// A section of an object whose keys are read one by one. Every message (exit code 2) names the
// file, the section, the key and the value.
class JsonSection {
 public:
  // `path` and `json` must outlive it.
  JsonSection(const std::string& path, const nlohmann::json& json, std::string name);

  std::string text(const char* key) const;
  std::int64_t count(const char* key) const;  // from 1 up
  // Nothing where the key is absent, null or "auto".
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
