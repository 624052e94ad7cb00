// Parser for Hjson (https://hjson.github.io), JSON with comments, which DeepSpeed accepts.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme {

// Parses JSON with comments (#, //, /* */), trailing commas, line breaks instead of commas,
// unquoted names and strings, ''' strings, and an outermost object without braces. Bad input (exit
// code 2): "'NAME' is not JSON: line 3, column 7: ...", also for duplicate keys and for nesting
// deeper than max_json_depth.
nlohmann::json parse_hjson(std::string_view text, const std::string& name);

}  // namespace trireme
