// Hjson (https://hjson.github.io), the JSON with comments that DeepSpeed reads its files as.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme {

// Parses a text: JSON, in which comments (#, //, /* */), trailing commas, line breaks in place of
// commas, names and texts without quotes, texts in ''' and an outermost object without braces are
// allowed. Bad input (exit code 2): "'NAME' is not JSON: line 3, column 7: ...", also where an
// object has a key twice, and where values are nested more than max_json_depth deep.
nlohmann::json parse_hjson(std::string_view text, const std::string& name);

}  // namespace trireme
