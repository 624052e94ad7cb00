// Formats values and whole configurations as TOML.
#include <fmt/format.h>

#include <algorithm>

#include "config/fields.h"

namespace trireme {
namespace {

template <class T, class Print>
std::string toml_list(const std::vector<T>& values, Print print) {
  std::string text = "[";
  for (const T& value : values) {
    if (text.size() > 1) text += ", ";
    text += print(value);
  }
  return text + "]";
}

struct Printer {
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::int64_t* value) const { return fmt::format("{}", *value); }
  std::string operator()(const double* value) const { return toml_number(*value); }
  std::string operator()(const std::string* value) const { return toml_string(*value); }
  std::string operator()(const ChoiceSlot& choice) const {
    return toml_string(std::string(choice.name()));
  }
  std::string operator()(const std::vector<std::string>* value) const {
    return toml_list(*value, toml_string);
  }
  std::string operator()(const std::vector<std::int64_t>* value) const {
    return toml_list(*value, [](std::int64_t v) { return fmt::format("{}", v); });
  }
  std::string operator()(const std::vector<double>* value) const {
    return toml_list(*value, toml_number);
  }
};

struct TypeName {
  std::string operator()(const bool*) const { return "true or false"; }
  std::string operator()(const std::int64_t*) const { return "an integer"; }
  std::string operator()(const double*) const { return "a number"; }
  std::string operator()(const std::string*) const { return "a string"; }
  std::string operator()(const ChoiceSlot&) const { return "a string"; }
  std::string operator()(const std::vector<std::string>*) const { return "a list of strings"; }
  std::string operator()(const std::vector<std::int64_t>*) const { return "a list of integers"; }
  std::string operator()(const std::vector<double>*) const { return "a list of numbers"; }
};

}  // namespace

std::string type_name(const FieldSlot& slot) {
  return std::visit(TypeName{}, slot);
}

std::string range_text(const FieldLimits& limits) {
  const std::string low =
      limits.min == -std::numeric_limits<double>::infinity()
          ? ""
          : fmt::format("{} {}", limits.above_min ? "above" : "at least", limits.min);
  const std::string high =
      limits.max == std::numeric_limits<double>::infinity()
          ? ""
          : fmt::format("{} {}", limits.below_max ? "below" : "at most", limits.max);
  return low.empty() || high.empty() ? low + high : low + " and " + high;
}

std::string toml_number(double value) {
  std::string text = fmt::format("{}", value);  // shortest text that parses back to the same bits
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string toml_string(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string toml_value(const FieldSlot& slot) {
  return std::visit(Printer{}, slot);
}

std::string to_toml(const Config& config) {
  Config resolved = config;
  resolve(resolved.model);
  std::string text;
  std::string section;
  for (const Field& field : all_fields()) {
    if (field.section != section) {
      text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", field.section);
      section = field.section;
    }
    text += fmt::format("{} = {}\n", field.name, toml_value(field.slot(resolved)));
  }
  return text;
}

std::vector<std::string> changes(const Config& before, const Config& now,
                                 const std::vector<std::string>& keys) {
  Config a = before, b = now;
  std::vector<std::string> changed;
  for (const Field& field : all_fields()) {
    if (std::find(keys.begin(), keys.end(), field.key()) == keys.end()) continue;
    const std::string was = toml_value(field.slot(a)), is = toml_value(field.slot(b));
    if (was != is) changed.push_back(fmt::format("{}: {}, was {}", field.key(), is, was));
  }
  return changed;
}

}  // namespace trireme
