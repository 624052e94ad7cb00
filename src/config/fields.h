// The table of all configuration keys: parsing, printing, messages and the reference page read it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"

namespace trireme {

// Maximum size of a configuration file in bytes.
inline constexpr std::uint64_t largest_config_file = 1 << 20;

// An enumeration value (base/choice.h) with the names of all values.
struct ChoiceSlot {
  std::uint8_t* value;
  std::span<const std::string_view> names;

  std::string_view name() const { return names[*value]; }
};

// Pointer to a field inside a Config; its type is the key's type.
using FieldSlot =
    std::variant<bool*, std::int64_t*, double*, std::string*, ChoiceSlot, std::vector<std::string>*,
                 std::vector<std::int64_t>*, std::vector<double>*>;

// Whether the value is written as a string.
inline bool is_text(const FieldSlot& slot) {
  return std::holds_alternative<std::string*>(slot) || std::holds_alternative<ChoiceSlot>(slot);
}

// Valid values. Strings must be in `allowed` (empty: any); numbers and elements of number lists
// must lie in [min, max], where either end may be open.
struct FieldLimits {
  std::vector<std::string> allowed;
  // Values added by the program at run time; null: none.
  std::vector<std::string> (*added)() = nullptr;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;
  bool below_max = false;
};

struct Field {
  std::string section;
  std::string name;
  FieldSlot (*slot)(Config&);
  FieldLimits limits;
  std::string unit;                  // for numbers: "tokens", "iterations"; "" if none
  std::string description;           // one line, no full stop
  bool follows_family = false;       // the default depends on model.family
  bool changes_weights = false;      // affects the computation without changing weight shapes
  std::vector<std::string> aliases;  // names in other systems
  std::string former_name;           // name in older configurations, still accepted

  Field(std::string in, std::string called, FieldSlot (*at)(Config&), FieldLimits values,
        std::string measure, std::string meaning);

  std::string key() const { return section + "." + name; }

  // Modifiers that rows of the table add to those properties.
  Field by_family() const;
  Field of_weights() const;
  Field also(std::string_view names) const;  // separated by spaces
  Field formerly(std::string_view name) const;
};

// All fields, grouped by section, in the order of the struct.
std::span<const Field> all_fields();

// Section names in the order of Config.
const std::vector<std::string>& section_names();

// The field `section.name`, also under its former name; null if there is none.
const Field* find_field(const std::string& section, const std::string& name);
const Field* find_field(const std::string& key);  // "section.name"

// Keys that affect the computation without changing weight shapes.
std::vector<std::string> weight_keys();

// Name of a slot's type for messages: "an integer", "a list of strings", ...
std::string type_name(const FieldSlot& slot);

// Range of a number for messages: "at least 1 and below 10", "between 0 and 1".
std::string range_text(const FieldLimits& limits);

// Formats the value as TOML that parses back to the same bits.
std::string toml_value(const FieldSlot& slot);
std::string toml_string(const std::string& text);
std::string toml_number(double value);

}  // namespace trireme
