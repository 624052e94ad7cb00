// Splits a shell script into simple commands, without running anything: the part of the language
// that launch scripts use. Words keep their quotes; shell_expand.h takes them away.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::megatron {

// What is not known stands inside a value between these and kMarkEnd, as its source text:
// a variable that nobody set (in tests it counts as empty) ...
constexpr char kUnset = '\x01';
// ... and what only running a command would tell (a test of it has no outcome).
constexpr char kUnknown = '\x03';
constexpr char kMarkEnd = '\x02';

struct ShellWord {
  std::string raw;                    // with quotes; "NAME=" or "NAME+=" before a list
  bool is_list = false;               // NAME=(...)
  std::vector<std::string> elements;  // of the list, raw
};

struct ShellRedirect {
  std::string sign;      // ">", ">>", "<<", ...
  std::string target;    // raw; the delimiter of a here-document
  std::string heredoc;   // its text
  bool literal = false;  // nothing in the text is expanded
};

struct ShellCommand {
  int line = 1;
  std::vector<ShellWord> words;  // keywords such as `if` and `do` are words too
  std::vector<ShellRedirect> redirects;
  std::string after;  // what ended it: "\n" ";" "&" "|" "&&" "||" ";;" "(" ")"
};

// Throws bad_input "name:line: ..." for quotes or brackets that do not end, and for nesting deeper
// than any script's.
std::vector<ShellCommand> split_commands(std::string_view text, const std::string& name);

// The end of the expansion ($..., or in backquotes) or the mark that begins at text[at].
// npos: it does not end. A '$' that begins nothing ends behind itself.
std::size_t expansion_end(std::string_view text, std::size_t at, int depth = 0);

bool is_name_start(char c);
bool is_name_char(char c);

}  // namespace trireme::megatron
