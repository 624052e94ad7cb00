// The flags of one command line, checked one by one against the table.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "importers/megatron/flags.h"
#include "importers/megatron/translate.h"

namespace trireme::megatron {

// Where complaints go: to an exception, or (lenient) into a list, which holds 200 of them; those
// beyond are counted.
class Complaints {
 public:
  Complaints(bool lenient, std::vector<Note>& lost) : lenient_(lenient), lost_(lost) {}
  // Throws bad_input "flag: text", or notes it and returns.
  void add(const std::string& flag, const std::string& text);
  // Lenient: the text of no other complaint will be read.
  bool full() const;
  std::size_t beyond() const { return beyond_.size(); }

 private:
  bool lenient_;
  std::vector<Note>& lost_;
  std::set<std::pair<std::string, std::string>> beyond_;
};

struct CommandLine {
  // By name; the values are of the flag's kind, and numbers lie within the limits of its key.
  std::map<std::string, std::vector<std::string>> flags;
  std::vector<std::string> order;      // names as they first appeared
  std::set<std::string> refused;       // names of flags that ask for what is not available
  std::vector<std::string> overrides;  // section.key=value
};

// Values of refused flags that mean Megatron's default make them vanish.
CommandLine parse_command_line(std::span<const std::string> arguments, Program program,
                               Complaints& complaints);

// Takes one flag with its values into `line`, checked as above.
void take_flag(CommandLine& line, const Flag& flag, std::vector<std::string> values,
               Complaints& complaints);

// The number without the underscores that Python allows, as TOML; "" where it is none.
std::string integer_text(const std::string& text);
std::string number_text(const std::string& text);

}  // namespace trireme::megatron
