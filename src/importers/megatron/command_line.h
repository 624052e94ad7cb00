// Parses a command line and checks each flag against the table.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "importers/megatron/flags/flags.h"
#include "importers/megatron/translate.h"

namespace trireme::megatron {

// Receives complaints: throws them or (lenient) collects up to 200 in a list and counts the
// rest.
class Complaints {
 public:
  Complaints(bool lenient, std::vector<Note>& lost) : lenient_(lenient), lost_(lost) {}
  // Throws bad_input "flag: text", or records it and returns.
  void add(const std::string& flag, const std::string& text);
  // Lenient: the list is full, so that further texts are not shown.
  bool full() const;
  std::size_t beyond() const { return beyond_.size(); }

 private:
  bool lenient_;
  std::vector<Note>& lost_;
  std::set<std::pair<std::string, std::string>> beyond_;
};

struct CommandLine {
  // Values by flag name; they have the flag's kind, and numbers are within their key's limits.
  std::map<std::string, std::vector<std::string>> flags;
  std::vector<std::string> order;      // in order of first occurrence
  std::set<std::string> refused;       // names of flags that request unsupported features
  std::vector<std::string> overrides;  // section.key=value
};

// Refused flags are dropped if their value means Megatron's default.
CommandLine parse_command_line(std::span<const std::string> arguments, Program program,
                               Complaints& complaints);

// Adds a flag with its values to `line`, with the same checks.
void take_flag(CommandLine& line, const Flag& flag, std::vector<std::string> values,
               Complaints& complaints);

// Converts Python number syntax (with underscores) to TOML; "" if not a number.
std::string integer_text(const std::string& text);
std::string number_text(const std::string& text);

}  // namespace trireme::megatron
