// Builds a Config from TOML text and overrides.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "config/config_file.h"
#include "config/fields.h"
#include "config/foreign_names.h"
#include "config/nearest.h"
#include "config/presets.h"
#include "config/toml_depth.h"

namespace trireme {
namespace {

// Formats the value found, for messages; long values are truncated.
std::string shown(const toml::node& node) {
  std::ostringstream text;
  text << toml::node_view<const toml::node>(node);
  const std::string value = text.str();
  return value.size() <= 80 ? value : value.substr(0, 77) + "...";
}

std::string found(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "the list " + shown(node);
    case toml::node_type::string:
      return "the string " + shown(node);
    case toml::node_type::integer:
      return "the integer " + shown(node);
    case toml::node_type::floating_point:
      return "the number " + shown(node);
    case toml::node_type::boolean:
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
    case toml::node_type::none:
      break;
  }
  return shown(node);
}

std::string did_you_mean(const std::string& name) {
  return name.empty() ? "" : fmt::format("; did you mean \"{}\"?", name);
}

// Converts a value to an integer; whole floats are accepted (samples = 1e6).
std::optional<std::int64_t> as_integer(const toml::node& node) {
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) {
    if (std::abs(value->get()) < 0x1p53 && value->get() == std::floor(value->get())) {
      return static_cast<std::int64_t>(value->get());
    }
  }
  return std::nullopt;
}

std::optional<double> as_number(const toml::node& node) {
  return node.is_number() ? node.value<double>() : std::nullopt;
}

// Converts strings, and numbers in string lists (dataset weights), to text.
std::optional<std::string> as_text(const toml::node& node) {
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_integer()) return fmt::format("{}", value->get());
  if (const auto* value = node.as_floating_point()) return fmt::format("{}", value->get());
  return std::nullopt;
}

// Assigns TOML values to fields; `where` begins every message.
class Assigner {
 public:
  Assigner(const Field& field, const std::string& where) : field_(field), where_(where) {}

  void operator()(bool* to, const toml::node& node) const {
    const auto* value = node.as_boolean();
    if (!value) refuse_type(to, node);
    *to = value->get();
  }
  void operator()(std::int64_t* to, const toml::node& node) const {
    const auto value = as_integer(node);
    if (!value) refuse_type(to, node);
    check_range(static_cast<double>(*value), node);
    *to = *value;
  }
  void operator()(double* to, const toml::node& node) const {
    const auto value = as_number(node);
    if (!value) refuse_type(to, node);
    check_range(*value, node);
    *to = *value;
  }
  void operator()(std::string* to, const toml::node& node) const {
    const auto* value = node.as_string();
    if (!value) refuse_type(to, node);
    check_allowed(value->get());
    *to = value->get();
  }
  void operator()(const ChoiceSlot& to, const toml::node& node) const {
    const auto* value = node.as_string();
    if (!value) refuse_type(to, node);
    const auto at = std::ranges::find(to.names, value->get());
    if (at == to.names.end()) refuse_value(value->get(), field_.limits.allowed);
    *to.value = static_cast<std::uint8_t>(at - to.names.begin());
  }
  void operator()(std::vector<std::string>* to, const toml::node& node) const {
    std::vector<std::string> values;
    if (const auto* one = node.as_string())
      values.push_back(one->get());
    else if (!node.is_array())
      refuse_type(to, node);
    else
      for (const toml::node& element : *node.as_array()) {
        const auto value = as_text(element);
        if (!value) refuse_type(to, node);
        values.push_back(*value);
      }
    *to = std::move(values);
  }
  void operator()(std::vector<std::int64_t>* to, const toml::node& node) const {
    assign_numbers(to, node, as_integer);
  }
  void operator()(std::vector<double>* to, const toml::node& node) const {
    assign_numbers(to, node, as_number);
  }

 private:
  template <class T, class Read>
  void assign_numbers(std::vector<T>* to, const toml::node& node, const Read& read) const {
    if (!node.is_array()) refuse_type(to, node);
    std::vector<T> values;
    for (const toml::node& element : *node.as_array()) {
      const auto value = read(element);
      if (!value) refuse_type(to, node);
      check_range(static_cast<double>(*value), element);
      values.push_back(*value);
    }
    *to = std::move(values);
  }

  [[noreturn]] void refuse_type(const FieldSlot& to, const toml::node& node) const {
    fail_input("{}: {} expects {}, found {}", where_, field_.key(), type_name(to), found(node));
  }

  [[noreturn]] void refuse_value(const std::string& value,
                                 const std::vector<std::string>& allowed) const {
    fail_input("{}: {} = {} is not one of {}{}", where_, field_.key(), toml_string(value),
               fmt::join(allowed, ", "), did_you_mean(nearest_name(value, allowed)));
  }

  void check_range(double value, const toml::node& node) const {
    const FieldLimits& limits = field_.limits;
    const bool low = limits.above_min ? value > limits.min : value >= limits.min;
    const bool high = limits.below_max ? value < limits.max : value <= limits.max;
    if (std::fpclassify(value) == FP_SUBNORMAL) {
      fail_input("{}: {} = {} is out of range: it must be 0 or at least {:.2g} away from it",
                 where_, field_.key(), shown(node), std::numeric_limits<double>::min());
    }
    if (std::isfinite(value) && low && high) return;
    const std::string range = range_text(limits);
    const bool finite = std::isfinite(value);
    fail_input("{}: {} = {} is out of range: it must be {}{}{}", where_, field_.key(), shown(node),
               finite ? "" : "finite", finite || range.empty() ? "" : " and ", range);
  }

  // The default is valid even if it is not in the set: "" means that it is chosen elsewhere.
  void check_allowed(const std::string& value) const {
    std::vector<std::string> allowed = field_.limits.allowed;
    if (field_.limits.added) {
      const std::vector<std::string> added = field_.limits.added();
      allowed.insert(allowed.end(), added.begin(), added.end());
    }
    Config defaults;
    if (allowed.empty() || value == *std::get<std::string*>(field_.slot(defaults))) return;
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
      refuse_value(value, allowed);
  }

  const Field& field_;
  const std::string& where_;
};

void assign(Config& config, const Field& field, const toml::node& node, const std::string& where) {
  const Assigner assigner(field, where);
  std::visit([&](const auto& to) { assigner(to, node); }, field.slot(config));
  if (field.section == "model") config.model.given.insert(field.name);
}

// Suggests the same name in another section, the section's nearest key, or the nearest of all.
std::string suggest_key(const std::string& section, const std::string& name) {
  std::vector<std::string> here, names;
  for (const Field& field : all_fields()) {
    if (field.name == name) return field.key();
    if (field.section == section) here.push_back(field.name);
    names.push_back(field.name);
  }
  if (const std::string near = nearest_name(name, here); !near.empty()) return section + "." + near;
  const std::string near = nearest_name(name, names);
  for (const Field& field : all_fields()) {
    if (!near.empty() && field.name == near) return field.key();
  }
  return "";
}

bool find_section(std::string_view section) {
  const std::vector<std::string>& sections = section_names();
  return std::find(sections.begin(), sections.end(), section) != sections.end();
}

void check_section(const std::string& section, const std::string& where) {
  if (find_section(section)) return;
  const std::vector<std::string>& sections = section_names();
  fail_input("{}: unknown section [{}]; the sections are {}{}", where, section,
             fmt::join(sections, ", "), did_you_mean(nearest_name(section, sections)));
}

const Field& known_field(const std::string& section, const std::string& name,
                         const std::string& where) {
  if (const Field* field = find_field(section, name)) return *field;
  check_section(section, where);
  const std::string foreign = foreign_key_hint(section, name);
  fail_input("{}: unknown key \"{}.{}\"{}", where, section, name,
             foreign.empty() ? did_you_mean(suggest_key(section, name)) : ": " + foreign);
}

// Retired keys that still occur in the config.toml of older runs.
bool is_retired(const std::string& section, std::string_view name) {
  return section == "checkpoint" && name == "load_rng";
}

void apply_table(Config& config, const toml::table& root, const std::string& name) {
  const auto where = [&](const toml::source_region& at) {
    return fmt::format("{}:{}", name, at.begin.line);
  };
  for (const auto& [section, node] : root) {
    const std::string section_name(section.str());
    const std::string place = where(section.source());
    const toml::table* table = node.as_table();
    if (!table) {
      if (const std::string foreign = foreign_key_hint("", section_name); !foreign.empty())
        fail_input("{}: unknown key \"{}\": {}", place, section_name, foreign);
      const std::string near = suggest_key("", section_name);
      fail_input("{}: \"{}\" must be a section with keys, as in [{}]{}", place, section_name,
                 near.empty() ? section_name : near.substr(0, near.find('.')), did_you_mean(near));
    }
    check_section(section_name, place);
    for (const auto& [key, value] : *table) {
      const std::string key_place = where(key.source());
      if (is_retired(section_name, key.str())) continue;
      const Field& field = known_field(section_name, std::string(key.str()), key_place);
      if (field.name != key.str() && table->contains(field.name)) {
        fail_input("{}: \"{}\" is the former name of \"{}\", which is also set: remove one of them",
                   key_place, key.str(), field.name);
      }
      assign(config, field, value, key_place);
    }
  }
}

// Rewords "Error while parsing string: encountered end-of-file" to "encountered ..., in a string".
std::string reworded(std::string_view words) {
  constexpr std::string_view begin = "Error while parsing ";
  const std::size_t colon = words.find(": ");
  if (!words.starts_with(begin) || colon == words.npos) return std::string(words);
  const std::string_view what = words.substr(begin.size(), colon - begin.size());
  return fmt::format("{}, in {} {}", words.substr(colon + 2),
                     std::string_view("aeiou").find(what[0]) == words.npos ? "a" : "an", what);
}

toml::table parse_text(const std::string& text, const std::string& name) {
  if (const int line = line_of_deep_key(text); line > 0)
    fail_input(
        "{}:{}: not a configuration: a key has more than {} parts, but a configuration key has "
        "two, as in train.iters",
        name, line, max_toml_key_parts);
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    if (const std::string foreign = foreign_file_hint(text); !foreign.empty())
      fail_input("{}: {}", name, foreign);
    const toml::source_position at = error.source().begin;
    fail_input("{}:{}: not TOML: column {}: {}", name, at.line, at.column,
               reworded(error.description()));
  }
}

bool is_whole_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789_") == text.npos;
}

// Parses an override's value into a table with the key "value": as TOML if possible, else as a
// string. For text fields, only quoted values (or, for lists, bracketed ones) are TOML.
toml::table override_value(const std::string& text, const FieldSlot& slot,
                           const std::string& where) {
  const bool wants_list = std::holds_alternative<std::vector<std::string>*>(slot);
  const bool wants_text = wants_list || is_text(slot);
  const bool is_toml =
      text.starts_with('"') || text.starts_with('\'') || (wants_list && text.starts_with('['));
  if (line_of_deep_key(text) > 0)
    fail_input("{}: a key has more than {} parts", where, max_toml_key_parts);
  if (!wants_text || is_toml) {
    try {
      toml::table table = toml::parse("value = " + text);
      if (table.size() == 1) return table;
    } catch (const toml::parse_error&) {
      if (is_toml) fail_input("{}: {} is not a TOML value", where, text);
      if (is_whole_number(text))
        fail_input("{}: {} is too large: integers have 64 bits", where, text);
    }
  }
  return parse_text("value = " + toml_string(text), where);
}

void apply_override(Config& config, const std::string& text) {
  const std::string where = fmt::format("override '{}'", text);
  const std::size_t equals = text.find('=');
  const std::size_t dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals) {
    const std::string name = text.substr(0, equals);
    if (const std::string foreign = foreign_key_hint("", name); !foreign.empty())
      fail_input("{}: unknown key \"{}\": {}", where, name, foreign);
    fail_input("{}: expected section.key=value, for example train.iters=1000{}", where,
               did_you_mean(suggest_key("", name)));
  }
  const Field& field =
      known_field(text.substr(0, dot), text.substr(dot + 1, equals - dot - 1), where);
  const FieldSlot slot = field.slot(config);
  const toml::table table = override_value(text.substr(equals + 1), slot, where);
  assign(config, field, *table.get("value"), where);
}

// Applies the preset's values to keys that neither the file nor an override sets.
void apply_preset(Config& config) {
  const Preset* preset = find_preset(config.model.preset);
  if (!preset) return;
  const std::string where = fmt::format("preset {}", preset->name);
  const std::set<std::string> given = config.model.given;
  for (const auto& [key, value] : preset->values) {
    const std::string name(key);
    if (given.contains(name)) continue;
    const toml::table table = parse_text(fmt::format("value = {}", value), where);
    assign(config, known_field("model", name, where), *table.get("value"), where);
  }
}

// Refuses a preset of the command line where keys of the file would make it another model. Keys
// that an override sets as well are agreed to.
void refuse_hidden_preset(const Config& config, const std::string& name,
                          const std::set<std::string>& in_file,
                          const std::vector<std::string>& overrides) {
  const Preset* preset = find_preset(config.model.preset);
  if (!preset) return;
  Config published;
  published.model.preset = config.model.preset;
  apply_preset(published);
  std::vector<std::string> keys;
  for (const auto& [key, value] : preset->values) {
    const auto sets_key = [&](const std::string& text) {
      return text.starts_with(fmt::format("model.{}=", key));
    };
    if (in_file.contains(std::string(key)) && std::ranges::none_of(overrides, sets_key))
      keys.push_back(fmt::format("model.{}", key));
  }
  const std::vector<std::string> hidden = changes(published, config, keys);
  if (hidden.empty()) return;
  fail_input(
      "model.preset = \"{}\" on the command line is overridden by keys of {}, which make it a "
      "different model: {}. Remove these keys from the file, or give them on the command line as "
      "well",
      preset->name, name, fmt::join(hidden, "; "));
}

}  // namespace

Config parse_config(const std::string& text, const std::string& name,
                    const std::vector<std::string>& overrides) {
  Config config;
  const toml::table root = parse_text(text, name);
  for (const auto& [section, node] : root) {
    if (find_section(section.str())) continue;
    if (const std::string foreign = foreign_file_hint(text); !foreign.empty())
      fail_input("{}: {}", name, foreign);
  }
  apply_table(config, root, name);
  const std::set<std::string> in_file = config.model.given;
  const std::string preset_of_file = config.model.preset;
  for (const std::string& override_text : overrides) apply_override(config, override_text);
  if (config.model.preset != preset_of_file) refuse_hidden_preset(config, name, in_file, overrides);
  apply_preset(config);
  resolve(config.model);
  return config;
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  return parse_config(read_config_file(path), path, overrides);
}

}  // namespace trireme
