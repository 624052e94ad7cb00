// Parses YAML, JSON and TOML to a common representation.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <toml++/toml.h>
#include <sstream>

#include "base/error.h"
#include "base/hjson.h"
#include "config/toml_depth.h"
#include "importers/settings/reader.h"

namespace trireme::settings {
namespace {

// A YAML alias expands to its anchor's value, which may contain further aliases.
constexpr int kMostValues = 10'000;
constexpr int kDeepest = 32;

// Unquoted YAML 1.1 scalars as used in accelerate's files; quoted words are text.
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

class YamlReader {
 public:
  Parsed result;

  Json read(const YAML::Node& node, const std::string& path, int depth) {
    if (depth > kDeepest) fail_input("values are nested more than {} levels deep", kDeepest);
    if (++values_ > kMostValues) fail_input("it has more than {} values", kMostValues);
    if (node.IsMap()) return read_map(node, path, depth);
    if (!node.IsSequence()) return node.IsScalar() ? yaml_scalar(node) : Json();
    Json json = Json::array();
    for (const auto& item : node) json.push_back(read(item, path, depth + 1));
    return json;
  }

 private:
  Json read_map(const YAML::Node& node, const std::string& path, int depth) {
    Json json = Json::object();
    for (const auto& item : node) {
      if (!item.first.IsScalar()) fail_input("a key below '{}' is not a string", path);
      const std::string name = item.first.Scalar();
      const std::string key = path.empty() ? name : path + "." + name;
      if (json.contains(name)) result.repeated.push_back(key);
      json[name] = read(item.second, key, depth + 1);
    }
    return json;
  }

  int values_ = 0;
};

// The library recurses into brackets, indentation, and indicators of lists, keys and values, so
// their number is limited before parsing.
void refuse_deep_yaml(const std::string& text) {
  constexpr int most_signs = 64;
  int brackets = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(' ') != line.npos && line.find_first_not_of(' ') > 200)
      fail_input("a line is indented by more than 200 characters");
    int signs = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      brackets += c == '[' || c == '{';
      brackets -= c == ']' || c == '}';
      const bool begins = i + 1 == line.size() || line[i + 1] == ' ' || line[i + 1] == '\t';
      signs += begins && (c == '-' || c == '?' || c == ':');
      if (brackets > kDeepest || signs > most_signs)
        fail_input("values are nested more than {} levels deep", kDeepest);
    }
  }
}

// Counts documents without building them: from some texts that are not YAML the library reads
// documents without end.
class DocumentCounter : public YAML::EventHandler {
 public:
  std::size_t documents = 0;  // those with values

  void OnDocumentStart(const YAML::Mark& /*at*/) override { begins_ = true; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*at*/, YAML::anchor_t /*anchor*/) override { begins_ = false; }
  void OnAlias(const YAML::Mark& /*at*/, YAML::anchor_t /*anchor*/) override { count(); }
  void OnScalar(const YAML::Mark& /*at*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {
    count();
  }
  void OnSequenceStart(const YAML::Mark& /*at*/, const std::string& /*tag*/,
                       YAML::anchor_t /*anchor*/, YAML::EmitterStyle::value /*style*/) override {
    count();
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*at*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    count();
  }
  void OnMapEnd() override {}

 private:
  void count() {
    if (begins_) ++documents;
    begins_ = false;
  }

  bool begins_ = false;
};

void refuse_documents(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentCounter counter;
  for (std::size_t read = 0; parser.HandleNextDocument(counter); ++read) {
    if (counter.documents > 1)
      fail_input("has more than one YAML document, separated by '---': expected one");
    if (read > text.size()) fail_input("is not YAML: it has documents without end");
  }
}

Parsed parse_yaml(const std::string& text) {
  refuse_deep_yaml(text);
  try {
    refuse_documents(text);
    YamlReader reader;
    reader.result.json = reader.read(YAML::Load(text), "", 0);
    return std::move(reader.result);
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
  if (const int line = line_of_deep_key(text); line > 0)
    fail_input("line {}: a key has more than {} parts", line, max_toml_key_parts);
  try {
    const toml::table table = toml::parse(text);
    return from_toml(table);
  } catch (const toml::parse_error& error) {
    fail_input("is not TOML: line {}, column {}: {}", error.source().begin.line,
               error.source().begin.column, error.description());
  }
}

}  // namespace

Parsed parse_settings(const std::string& text, const fs::path& path) {
  const std::string end = path.extension().string();
  if (end == ".json" || end == ".hjson") return {parse_hjson(text, path.string()), {}};
  try {
    return end == ".toml" ? Parsed{parse_toml(text), {}} : parse_yaml(text);
  } catch (const Error& error) {
    fail_input("'{}': {}", path.string(), error.what());
  }
}

}  // namespace trireme::settings
