// Walks over the commands of a script: control flow, assignments, functions, and the commands that
// matter to a launch.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megatron/launch_script.h"
#include "megatron/shell_expand.h"
#include "megatron/shell_lexer.h"

namespace trireme::megatron {

// What several runners of one script (eval, bash -c) share.
struct ShellRun {
  ShellState state;
  LaunchScript* found = nullptr;
  std::size_t steps = 0;
};

class ShellRunner {
 public:
  // `line`: where the text stands in the script, if it is part of a line. `launcher`: the words
  // before a nested `bash -c`.
  ShellRunner(ShellRun& run, int depth, int line, std::vector<std::string> launcher);
  void run(std::string_view text);

 private:
  enum class Kind { condition, loop, items, choice, group, definition, call };
  struct Block {
    Kind kind;
    bool outer = true;       // whether commands around it are followed
    bool active = true;      // whether commands inside are
    bool testing = false;    // between `if`, `elif` or `while` and `then` or `do`
    bool taken = false;      // a branch was chosen
    bool undecided = false;  // only running would tell
    bool pattern = false;    // choice: patterns come next
    int line = 0;
    std::size_t start = 0;  // loop: its first command; items: its body; call: where to go on
    std::string name;       // items: the variable; choice: the subject
    std::vector<std::string> items;  // still to come; call: the positional arguments before
  };
  using Words = std::span<const ShellWord>;

  bool active() const { return blocks_.empty() || blocks_.back().active; }
  void execute(const ShellCommand& command);
  // A command without keywords, if it is to be followed.
  void follow(const ShellCommand& command, Words words);
  // Control flow; each returns the words that are left.
  Words keyword(const ShellCommand& command, Words words, bool& known);
  void begin_test(Kind kind, const ShellCommand& command);
  void end_test(bool loop);
  void other_branch(bool last);
  void begin_items(const ShellCommand& command, Words words);
  void end_loop();
  void leave_loop();
  Words begin_choice(const ShellCommand& command, Words words);
  void choose(const ShellCommand& command, Words words);
  void begin_group();
  void end_group();
  bool define(const ShellCommand& command, Words words);
  void note_skipped(Words words);
  void lose(int line, std::string text);

  // A command that is followed; gives its outcome.
  std::optional<bool> simple(const ShellCommand& command, Words words);
  bool assign(const ShellWord& word);
  std::optional<bool> test(Words words);
  std::optional<bool> builtin(const ShellCommand& command, Words words,
                              const std::vector<std::string>& argv, bool& known);
  void declare(Words words);
  void call(const std::string& name, const std::vector<std::string>& argv);
  void leave_call();
  void write_file(const ShellCommand& command, const std::vector<std::string>& argv);
  void nested(const std::string& text, std::vector<std::string> launcher);
  bool launch(const std::vector<std::string>& argv);
  int line_of(const ShellCommand& command) const { return line_ > 0 ? line_ : command.line; }

  ShellRun& run_;
  int depth_;
  int line_;
  std::vector<std::string> launcher_;
  std::vector<ShellCommand> commands_;
  std::size_t at_ = 0;  // the next command
  std::vector<Block> blocks_;
  std::map<std::string, std::size_t, std::less<>> functions_;  // name: the command with its `{`
  std::string defining_;                                       // a function whose `{` comes next
  bool calling_ = false;                                       // the next `{` is the body of a call
  bool stopped_ = false;
  std::string before_;                  // what ended the command before
  std::optional<bool> outcome_ = true;  // of the command before
};

}  // namespace trireme::megatron
