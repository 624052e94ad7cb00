// YAML, JSON and TOML as one kind of value.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <toml++/toml.h>
#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "settings/reader.h"

namespace trireme::settings {
namespace {

// An alias of YAML repeats what it stands for, which may itself hold aliases.
constexpr int kMostValues = 10'000;
constexpr int kDeepest = 32;

// The plain words of YAML 1.1 that accelerate's files hold; a quoted word is text.
Json yaml_scalar(const YAML::Node& node) {
  const std::string text = node.Scalar();
  if (node.Tag() == "!") return text;
  bool flag = false;
  if (YAML::convert<bool>::decode(node, flag)) return flag;
  std::int64_t count = 0;
  if (YAML::convert<std::int64_t>::decode(node, count)) return count;
  double number = 0;
  if (YAML::convert<double>::decode(node, number)) return number;
  return text;
}

Json from_yaml(const YAML::Node& node, int depth, int& values) {
  if (depth > kDeepest) fail_input("values lie more than {} deep within others", kDeepest);
  if (++values > kMostValues) fail_input("there are more than {} values", kMostValues);
  if (node.IsMap()) {
    Json json = Json::object();
    for (const auto& item : node)
      json[item.first.Scalar()] = from_yaml(item.second, depth + 1, values);
    return json;
  }
  if (node.IsSequence()) {
    Json json = Json::array();
    for (const auto& item : node) json.push_back(from_yaml(item, depth + 1, values));
    return json;
  }
  return node.IsScalar() ? yaml_scalar(node) : Json();
}

// The library recurses into brackets and indentation, so that depth is bounded before it reads.
void refuse_deep_yaml(const std::string& text) {
  int brackets = 0;
  std::size_t indentation = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find_first_not_of(" -?");
    indentation = std::max(indentation, first == std::string::npos ? line.size() : first);
    for (const char c : line) {
      brackets += c == '[' || c == '{';
      brackets -= c == ']' || c == '}';
      if (brackets > kDeepest) fail_input("values lie more than {} deep within others", kDeepest);
    }
  }
  if (indentation > 200) fail_input("a line is indented by more than 200 characters");
}

Json parse_yaml(const std::string& text) {
  refuse_deep_yaml(text);
  try {
    int values = 0;
    return from_yaml(YAML::Load(text), 0, values);
  } catch (const YAML::Exception& error) {
    fail_input("is not YAML: line {}, column {}: {}", error.mark.line + 1, error.mark.column + 1,
               error.msg);
  }
}

Json from_toml(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json json = Json::object();
    for (const auto& [key, value] : *table) json[std::string(key.str())] = from_toml(value);
    return json;
  }
  if (const auto* array = node.as_array()) {
    Json json = Json::array();
    for (const auto& value : *array) json.push_back(from_toml(value));
    return json;
  }
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto count = node.value_exact<std::int64_t>()) return *count;
  if (const auto number = node.value_exact<double>()) return *number;
  if (const auto flag = node.value_exact<bool>()) return *flag;
  return Json();  // a date
}

Json parse_toml(const std::string& text) {
  try {
    const toml::table table = toml::parse(text);
    return from_toml(table);
  } catch (const toml::parse_error& error) {
    fail_input("is not TOML: line {}, column {}: {}", error.source().begin.line,
               error.source().begin.column, error.description());
  }
}

}  // namespace

Json parse_settings(const std::string& text, const fs::path& path) {
  const std::string end = path.extension().string();
  if (end == ".json") return parse_json(text, path.string(), JsonComments::skip);
  try {
    return end == ".toml" ? parse_toml(text) : parse_yaml(text);
  } catch (const Error& error) {
    fail_input("'{}': {}", path.string(), error.what());
  }
}

}  // namespace trireme::settings
