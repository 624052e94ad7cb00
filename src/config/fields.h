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

// Bytes of a configuration file; a larger one is refused.
inline constexpr std::uint64_t largest_config_file = 1 << 20;

// A value of an enumeration (base/choice.h), with the names of all.
struct ChoiceSlot {
  std::uint8_t* value;
  std::span<const std::string_view> names;

  std::string_view name() const { return names[*value]; }
};

// Where the value of a field lies inside a Config; its type is the type of the key.
using FieldSlot = std::variant<bool*, std::int64_t*, double*, std::string*, ChoiceSlot,
                               std::vector<std::string>*, std::vector<std::int64_t>*>;

// Whether it is written as a string.
inline bool is_text(const FieldSlot& slot) {
  return std::holds_alternative<std::string*>(slot) || std::holds_alternative<ChoiceSlot>(slot);
}

// Valid values. Strings are one of `allowed` (empty: any); numbers, and the elements of lists of
// numbers, lie in [min, max], or in (min, max) where an end is open.
struct FieldLimits {
  std::vector<std::string> allowed;
  // Values that the program has added since it began; null: none.
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
  std::string unit;                  // of a number: "tokens", "iterations"; "" if it has none
  std::string description;           // one line, no full stop
  bool follows_family = false;       // the default follows from model.family
  bool changes_weights = false;      // it says what is computed with weights of the same shapes
  std::vector<std::string> aliases;  // its names in other systems
  std::string former_name;           // what older configurations call it, which is read too

  Field(std::string in, std::string called, FieldSlot (*at)(Config&), FieldLimits values,
        std::string measure, std::string meaning);

  std::string key() const { return section + "." + name; }

  // What rows of the table add to those.
  Field by_family() const;
  Field of_weights() const;
  Field also(std::string_view names) const;  // with blanks between them
  Field formerly(std::string_view name) const;
};

// All fields; those of a section stand together, in the order of the struct.
std::span<const Field> all_fields();

// The sections in the order of Config.
const std::vector<std::string>& section_names();

// The field `section.name`, by its former name too; null if there is none.
const Field* find_field(const std::string& section, const std::string& name);
const Field* find_field(const std::string& key);  // "section.name"

// Keys that say what is computed with weights of the same shapes.
std::vector<std::string> weight_keys();

// "an integer", "a list of strings", ...: how messages call the type of a slot.
std::string type_name(const FieldSlot& slot);

// "at least 1 and below 10", "between 0 and 1": how messages state the range of a number.
std::string range_text(const FieldLimits& limits);

// The value as TOML: text that parses back to the same bits.
std::string toml_value(const FieldSlot& slot);
std::string toml_string(const std::string& text);
std::string toml_number(double value);

}  // namespace trireme
