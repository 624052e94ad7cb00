// Variables, and the expansion of words: quotes, $NAME, ${NAME:-other}, lists, $((...)) and the few
// commands whose output follows from their arguments.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::megatron {

// What a script can refer to. Limits on sizes hold throughout: what exceeds them is refused.
struct ShellState {
  std::string script = "script.sh";     // $0
  std::vector<std::string> positional;  // $1 ...
  // A variable is a list; one that is no list has one element.
  std::map<std::string, std::vector<std::string>, std::less<>> variables;
  std::size_t budget = std::size_t{16} << 20;  // bytes that expansions may still make
  std::size_t work = std::size_t{1} << 27;     // characters that may still be looked at

  // Pays for looking at `characters`; refuses the script when it has asked for too much.
  void spend(std::size_t characters);
};

class ShellExpander {
 public:
  explicit ShellExpander(ShellState& state, int depth = 0) : state_(state), depth_(depth) {}

  // The words that `raw` becomes, appended: none, one or many.
  void words(std::string_view raw, std::vector<std::string>& out);
  // As the value of an assignment: one text, not split.
  std::string text(std::string_view raw);
  // The text of a here-document.
  std::string heredoc(std::string_view raw);

 private:
  enum class Quote { none, quoted };
  std::size_t home(std::string_view raw);
  void part(std::string_view raw, std::size_t& at, Quote quote);
  void quoted(std::string_view raw, std::size_t& at);
  void expansion(std::string_view source, Quote quote);
  void parameter(std::string_view source, std::string_view inner, Quote quote);
  std::optional<std::vector<std::string>> lookup(std::string_view name, std::string_view index);
  std::string operated(std::string value, std::string_view operation);
  std::string command(std::string_view source, std::string_view inner);
  void emit(std::string_view value, Quote quote);
  void emit_list(const std::vector<std::string>& values, Quote quote, bool one_word);
  void append(std::string_view bytes);
  void end_word();

  ShellState& state_;
  int depth_;
  bool splits_ = true;
  std::vector<std::string>* out_ = nullptr;
  std::string word_;
  bool has_word_ = false;
};

// The value of an arithmetic expression, variables by name included. Nothing where it is not known
// or wrong (division by zero, overflow).
std::optional<std::int64_t> shell_arithmetic(std::string_view expression, ShellState& state);

// Whether the text matches a pattern of '*', '?' and [sets].
bool shell_match(std::string_view text, std::string_view pattern, ShellState& state);

// Without what nobody set; in tests it counts as empty.
std::string without_unset(std::string_view text);
// The same, and null for what only running would tell: what remains of JSON is still JSON.
std::string with_null(std::string_view text);
bool has_unknown(std::string_view text);
// As it stood in the script: without marks.
std::string without_marks(std::string_view text);

}  // namespace trireme::megatron
