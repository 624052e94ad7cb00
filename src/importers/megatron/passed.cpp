// Matches and formats values of keys without an equivalent setting.
#include "importers/megatron/passed.h"

#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>

namespace trireme {

using Json = nlohmann::json;

std::string plain_value(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return fmt::format("{}", value.get<double>());
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_one_of(const Json& value, std::string_view values) {
  std::string wanted = plain_value(value);
  for (char& c : wanted) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (std::size_t begin = 0; begin <= values.size();) {
    const std::size_t end = std::min(values.find('|', begin), values.size());
    if (values.substr(begin, end - begin) == wanted) return true;
    begin = end + 1;
  }
  return false;
}

std::string switched_on(const Json& json, const std::string& path) {
  if (!json.is_object()) return "";
  for (const auto& [name, value] : json.items()) {
    const std::string key = path + "." + name;
    if (name == "enabled" && !value.is_null() && !is_one_of(value, "false|0|no")) return key;
    if (const std::string inner = switched_on(value, key); !inner.empty()) return inner;
  }
  return "";
}

}  // namespace trireme
