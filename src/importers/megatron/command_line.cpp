// Parses flags like Megatron's argparse: no abbreviations; the last of several values
// wins.
#include "importers/megatron/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "base/error.h"
#include "config/fields.h"
#include "config/nearest.h"

namespace trireme::megatron {
namespace {

constexpr std::size_t kMostArguments = 100'000;
constexpr std::size_t kMostComplaints = 200;

std::string shown(const std::string& value) {
  return value.size() <= 60 ? value : value.substr(0, 57) + "...";
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "-5" and "-.5" are values; anything else that starts with '-' is a flag.
bool is_flag(const std::string& argument) {
  if (argument.size() < 2 || argument[0] != '-') return false;
  return !is_digit(argument[1]) && argument[1] != '.';
}

bool is_override(const std::string& argument) {
  const std::size_t dot = argument.find('.');
  if (dot == std::string::npos || argument.find('=') == std::string::npos) return false;
  const std::vector<std::string>& sections = section_names();
  return std::find(sections.begin(), sections.end(), argument.substr(0, dot)) != sections.end();
}

// Normalizes Python's number syntax for C++: no plus sign, no underscores between digits.
std::string plain_number(const std::string& text) {
  std::string plain;
  for (std::size_t i = text.starts_with('+') ? 1 : 0; i < text.size(); ++i) {
    const bool between = text[i] == '_' && i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) &&
                         is_digit(text[i + 1]);
    if (!between) plain += text[i];
  }
  return plain;
}

// Returns why the value is out of range, or "".
std::string range_problem(const Flag& flag, const std::string& value) {
  const Field* field = flag.fate == Fate::key ? find_field(flag.keys) : nullptr;
  FieldLimits limits = field ? field->limits : FieldLimits{};
  if (flag.required) limits = {.min = limits.above_min ? 0.0 : 1.0, .max = limits.max};
  if (flag.required && flag.kind == Kind::number) limits = {.min = 0, .above_min = true};
  double number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  const bool low = limits.above_min ? number > limits.min : number >= limits.min;
  const bool high = limits.below_max ? number < limits.max : number <= limits.max;
  if (std::isfinite(number) && low && high) return "";
  const std::string range = range_text(limits);
  return fmt::format("{} is out of range: it must be {}", shown(value),
                     range.empty() ? "finite" : range);
}

bool is_list(Kind kind) {
  return kind == Kind::texts || kind == Kind::integers || kind == Kind::numbers;
}

// Whether Megatron takes an empty text as if the flag was not given. Elsewhere it fails on one, or
// trains something that the empty text does not say.
bool is_not_given(const Flag& flag, const std::vector<std::string>& values) {
  static const std::set<std::string_view> names = {
      "--save",           "--load",       "--pretrained-checkpoint", "--tensorboard-dir",
      "--vocab-file",     "--merge-file", "--tokenizer-model",       "--tokenizer-name-or-path",
      "--data-cache-path"};
  return values.size() == 1 && values[0].empty() && names.contains(flag.name);
}

// Normalizes the value for later code. Returns an error message, or "".
std::string normalize(const Flag& flag, std::string& value) {
  if (flag.kind == Kind::integer || flag.kind == Kind::integers) {
    const std::string text = integer_text(value);
    if (text.empty()) return fmt::format("'{}' is not an integer", shown(value));
    value = text;
    return range_problem(flag, value);
  }
  if (flag.kind == Kind::number || flag.kind == Kind::numbers) {
    const std::string text = number_text(value);
    if (text.empty()) return fmt::format("'{}' is not a number", shown(value));
    value = text;
    return range_problem(flag, value);
  }
  if (flag.kind == Kind::text || flag.kind == Kind::texts) {
    const bool is_blank = value.find_first_not_of(" \t\n") == std::string::npos;
    return is_blank && flag.fate != Fate::ignored
               ? fmt::format("is empty: expected {}", value_text(flag))
               : "";
  }
  if (flag.kind != Kind::choice) return "";
  std::vector<std::string> names;
  for (const auto& [theirs, ours] : choices(flag)) {
    if (theirs == value) return "";
    names.push_back(theirs);
  }
  const std::string near = nearest_name(value, names);
  return fmt::format("'{}' is not one of {}{}", shown(value), fmt::join(names, ", "),
                     near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
}

bool is_harmless(const Flag& flag, const std::vector<std::string>& values) {
  if (flag.fate != Fate::refused || values.size() != 1) return false;
  return (" " + flag.values + " ").find(" " + values[0] + " ") != std::string::npos;
}

void unknown_flag(const std::string& name, Program program, Complaints& complaints) {
  std::vector<std::string> names;
  // Skips the slow search if its result would not be shown.
  if (!complaints.full())
    for (const Flag& flag : all_flags()) names.push_back(flag.name);
  const std::string near = nearest_name(name, names);
  complaints.add(
      shown(name),
      fmt::format("unknown flag of pretrain-{}{}", program == Program::gpt ? "gpt" : "bert",
                  near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
}

// Iterates over the arguments and finds where the values of a flag end.
class Reader {
 public:
  Reader(std::span<const std::string> arguments, CommandLine& line, Program program,
         Complaints& complaints)
      : arguments_(arguments), line_(line), program_(program), complaints_(complaints) {}

  void read() {
    while (at_ < arguments_.size()) {
      const std::string& argument = arguments_[at_++];
      if (is_override(argument)) {
        line_.overrides.push_back(argument);
      } else if (is_flag(argument)) {
        read_flag(argument);
      } else if (!argument.empty()) {
        complaints_.add(
            shown(argument),
            "is neither a flag nor the value of a flag; write overrides as section.key=value");
      }
    }
  }

 private:
  void read_flag(const std::string& argument) {
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const Flag* flag = find_flag(name);
    std::vector<std::string> values;
    if (equals != std::string::npos) {
      values.push_back(argument.substr(equals + 1));
    } else if (!flag || is_list(flag->kind)) {
      values = values_ahead(arguments_.size());
    } else if (flag->kind != Kind::none) {
      values = values_ahead(1);
    }
    if (flag) {
      take_flag(line_, *flag, std::move(values), complaints_);
    } else {
      unknown_flag(name, program_, complaints_);
    }
  }

  std::vector<std::string> values_ahead(std::size_t most) {
    std::vector<std::string> values;
    while (at_ < arguments_.size() && values.size() < most && !is_flag(arguments_[at_]) &&
           !is_override(arguments_[at_])) {
      values.push_back(arguments_[at_++]);
    }
    return values;
  }

  std::span<const std::string> arguments_;
  CommandLine& line_;
  Program program_;
  Complaints& complaints_;
  std::size_t at_ = 0;
};

}  // namespace

void Complaints::add(const std::string& flag, const std::string& text) {
  if (!lenient_) fail_input("{}: {}", flag, text);
  Note note{flag, text};
  if (std::find(lost_.begin(), lost_.end(), note) != lost_.end()) return;
  if (full()) {
    beyond_.emplace(flag, text);
  } else {
    lost_.push_back(std::move(note));
  }
}

bool Complaints::full() const {
  return lost_.size() >= kMostComplaints;
}

std::string integer_text(const std::string& text) {
  const std::string plain = plain_number(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (error != std::errc() || end != plain.data() + plain.size()) return "";
  return fmt::format("{}", value);
}

std::string number_text(const std::string& text) {
  const std::string plain = plain_number(text);
  double value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (error != std::errc() || end != plain.data() + plain.size()) return "";
  return toml_number(value);
}

void take_flag(CommandLine& line, const Flag& flag, std::vector<std::string> values,
               Complaints& complaints) {
  if (flag.kind == Kind::none && !values.empty()) {
    return complaints.add(flag.name, fmt::format("takes no value, found '{}'", shown(values[0])));
  }
  // What is missing instead of --data-path is said together with all that is missing.
  if (flag.name == std::string_view("--data-path") && values.empty()) return;
  const bool may_lack_values = flag.kind == Kind::texts && flag.fate == Fate::ignored;
  if (flag.kind != Kind::none && values.empty() && !may_lack_values) {
    return complaints.add(flag.name, fmt::format("requires a value ({})", value_text(flag)));
  }
  if (is_harmless(flag, values)) return;
  if (flag.fate == Fate::refused) {
    line.refused.insert(flag.name);
    const std::string value = values.empty() ? "" : fmt::format("'{}': ", shown(values[0]));
    return complaints.add(flag.name, value + flag.text);
  }
  if (is_not_given(flag, values)) {
    line.flags.erase(flag.name);
    std::erase(line.order, flag.name);
    return;
  }
  for (std::string& value : values) {
    const std::string problem = normalize(flag, value);
    if (!problem.empty()) return complaints.add(flag.name, problem);
  }
  if (!line.flags.contains(flag.name)) line.order.push_back(flag.name);
  line.flags[flag.name] = std::move(values);
}

CommandLine parse_command_line(std::span<const std::string> arguments, Program program,
                               Complaints& complaints) {
  if (arguments.size() > kMostArguments) {
    fail_input("found {} arguments, but at most {} are supported", arguments.size(),
               kMostArguments);
  }
  CommandLine line;
  Reader(arguments, line, program, complaints).read();
  return line;
}

}  // namespace trireme::megatron
