// Parses JSON texts and describes in plain words what is wrong with a text or a value.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme {

// Why a text is not JSON, and at which of its characters that shows. Lines and columns from 1.
struct JsonFault {
  std::size_t line = 1, column = 1;
  std::string what;
};

// What the library found at a byte (from 1), in our words.
JsonFault json_fault(std::string_view text, std::size_t byte, std::string_view library_words);

// Values deeper within others are refused: what handles a value may recurse.
inline constexpr int max_json_depth = 256;

enum class JsonComments { refuse, skip };

// Parses a text. Bad input (exit code 2): "'NAME' is not JSON: line 3, column 7: ...".
nlohmann::json parse_json(std::string_view text, const std::string& name,
                          JsonComments comments = JsonComments::refuse);
// The same with a message of the caller's: `on_fault` must throw.
nlohmann::json parse_json(std::string_view text,
                          const std::function<void(const JsonFault&)>& on_fault,
                          JsonComments comments = JsonComments::refuse);

// How a message shows a value that it did not expect: `the string "12"`, `a list`, `null`.
std::string json_shown(const nlohmann::json& value);
// The keys of an object as a message names them: `its keys are "a", "b" and 3 more`.
std::string json_keys_shown(const nlohmann::json& object);

}  // namespace trireme
